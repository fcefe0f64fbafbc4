"""Lists mutants of logins at Kafka: what may go out, what is loaded by name, and where a secret could show."""

from __future__ import annotations

from mutants.mutant import Edit, one

LOGINS = "tests/core/test_kafka_logins.py::"
DEAD = "tests/spark/test_said_of_a_dead_task.py::"
NOT_LET_IN = f"{DEAD}test_a_login_that_spark_could_not_make_is_no_datas_fault_and_repeats_no_secret"
MECHANISMS = "core/login/mechanisms.py"
ENDED = tuple(f"{NOT_LET_IN}[{each}]" for each in ("login", "endpoint", "address"))

MUTANTS = [
    one(
        "a login that Spark could not make is the data's fault",
        "an issuer that is away three times would block the batch",
        ENDED,
        Edit("engine/spark/errors.py", " or _of_login(lines, where, work)", ""),
        long=True,
    ),
    one(
        "what a server repeats of a login is shown",
        "an issuer may send the secret back, and the line stands in logs and in the ledger",
        ENDED,
        Edit("core/kafka_options.py", 'text = text.replace(secret, "***")', 'text = text.replace("\\0", secret)'),
        long=True,
    ),
    one(
        "Spark's log knows no secret of a token's login",
        "it hides a login from its password on, and the client's secret has another name",
        (f"{LOGINS}test_what_sparks_log_hides_of_a_login_holds_its_secret",),
        Edit(MECHANISMS, '        always={"password": ""},\n', ""),
        long=True,
    ),
    one(
        "a login goes out without its protocol",
        "the client would say nothing of it, and talk to the broker without a login and in the clear",
        (f"{LOGINS}test_no_login_goes_out_without_its_protocol",),
        Edit(MECHANISMS, '    if not found.get("security.protocol", "").startswith("SASL_"):', "    if not found:"),
        long=True,
    ),
    one(
        "a callback class of one's own is loaded",
        "whoever may set an option would run code in Spark",
        (f"{LOGINS}test_no_callback_but_the_mechanisms_own_is_taken",),
        Edit(MECHANISMS, "    if value.replace(", "    if not value.replace("),
        long=True,
    ),
]
