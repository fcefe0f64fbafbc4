"""Lists mutants of logins at Kafka: what may go out, what is loaded by name, and where a secret could show."""

from __future__ import annotations

from mutants.mutant import Edit, one

LOGINS = "tests/core/test_kafka_logins.py::"
MECHANISMS = "core/login/mechanisms.py"
HIDDEN = "tests/spark/test_said_of_a_dead_task.py::test_what_an_error_repeats_of_a_login_is_hidden"

MUTANTS = [
    one(
        "what a server repeats of a login is shown",
        "an issuer may send the secret back, and the line stands in logs and in the ledger",
        (f"{HIDDEN}[a server]", f"{HIDDEN}[code]"),
        Edit("core/kafka_options.py", 'text = text.replace(secret, "***")', 'text = text.replace("\\0", secret)'),
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
        "an option would be taken that does nothing, where its author expects another login",
        (f"{LOGINS}test_no_callback_but_the_mechanisms_own_is_taken",),
        Edit(MECHANISMS, "    if value.replace(", "    if not value.replace("),
        long=True,
    ),
]
