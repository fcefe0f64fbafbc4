"""Lists mutants of the chain of commits and decisions, and of the proof of a certificate."""

from __future__ import annotations

from mutants.mutant import Edit, one

CERTIFICATE = "tests/cli/test_certificate.py::"
REWRITTEN = f"{CERTIFICATE}test_verify_names_what_was_rewritten_and_nothing_is_certified"
BEFORE = "tests/ledger/test_chain_of_before.py::"
HASHES = "tests/ledger/test_definition_hashes.py::"
CHANGED = f"{CERTIFICATE}test_each_changed_byte_of_a_certificate_is_found"

MUTANTS = [
    one(
        "verify does not hash the text of a definition",
        "the code that ran would be rewritten behind the hash that the chain holds",
        f"{HASHES}test_a_ledger_without_its_folder_hashes_definitions_too",
        Edit("ledger/proof/definitions.py", "if not is_hash_of(row.definition_hash, row.document):", "if False:"),
        long=True,
    ),
    one(
        "any beginning of a hash is the document's",
        "a text would be found for a short one",
        f"{HASHES}test_a_hash_from_before_has_the_first_letters_and_no_others_pass",
        Edit(
            "core/pipeline/folder.py", "return known in {found, found[:SHORT_HASH]}", "return found.startswith(known)"
        ),
    ),
    one(
        "verify does not digest the records",
        "a record that was rewritten would fit its link",
        (
            f"{REWRITTEN}[statements0-batch 1]",
            f"{REWRITTEN}[statements1-batch 1]",
            f"{REWRITTEN}[statements2-decision 1]",
            f"{REWRITTEN}[statements3-decision 2]",
            f"{REWRITTEN}[statements4-request 1]",
            f"{REWRITTEN}[statements5-request 1]",
            f"{REWRITTEN}[statements6-request 1]",
            f"{REWRITTEN}[statements8-the ledger]",
            f"{REWRITTEN}[statements14-batch 1]",
            f"{REWRITTEN}[statements15-batch 1]",
            f"{REWRITTEN}[statements16-batch 1]",
        ),
        Edit(
            "ledger/proof/chain.sql",
            "\n        or w.digest <> encode(sha256(convert_to(w.previous || e'\\n' || w.record, 'UTF8')), 'hex')",
            "",
        ),
        long=True,
    ),
    one(
        "a link from before is read with the process",
        "no chain from before would hold after the migration",
        f"{BEFORE}test_a_chain_of_before_holds_and_goes_on_when_the_ledger_is_migrated",
        Edit(
            "ledger/proof/chain.sql",
            "case l.form when 1 then (c.record::jsonb - 'ran')::text else c.record end, d.record",
            "c.record, d.record",
        ),
        long=True,
    ),
    one(
        "a certificate shows a link from before with the process",
        "no certificate of an earlier batch could be made after the migration",
        f"{BEFORE}test_certificates_of_before_are_proved_and_new_ones_are_made_of_batches_of_before",
        Edit(
            "ledger/proof/chain.sql",
            "case l.form when 1 then (c.record::jsonb - 'ran')::text else c.record end as record",
            "c.record",
        ),
        long=True,
    ),
    one(
        "a request is given to another pipeline unseen",
        "who asked for a replay would be looked for elsewhere",
        (f"{REWRITTEN}[statements7-is of request 1, which another pipeline made]",),
        Edit("ledger/proof/chain.sql", "q.pipeline <> l.pipeline as is_of_another", "false as is_of_another"),
        long=True,
    ),
    one(
        "a certificate's ranges are not counted",
        "a stream could be left out of it",
        f"{CERTIFICATE}test_a_range_that_was_left_out_of_a_certificate_is_missed",
        Edit("core/proof/certificate.py", 'and document["of"]["ranges"] != len(records)', "and not records"),
        long=True,
    ),
    one(
        "a certificate of another ledger is taken for one of this",
        "a test ledger's certificate would pass for the real one's",
        f"{CERTIFICATE}test_a_certificate_names_its_ledger_and_is_refused_beside_another",
        Edit(
            "steps/proof/certificate.py",
            'if (its := document.get("ledger", {}).get("id", here)) != here:',
            "if not (its := here):",
        ),
        long=True,
    ),
    one(
        "a signature proves nothing",
        "anybody could write a certificate",
        CHANGED,
        Edit(
            "adapters/signing.py",
            "    except (InvalidSignature, binascii.Error):\n        return False",
            "    except (InvalidSignature, binascii.Error):\n        return True",
        ),
        long=True,
    ),
    one(
        "a certificate's bytes are not compared",
        "a space more would go unseen",
        (CHANGED, f"{CERTIFICATE}test_the_commands_refuse_a_certificate_that_was_changed"),
        Edit("cli/looks/certifying.py", "if text != envelope(", "if not text and envelope("),
        long=True,
    ),
    one(
        "an hour's offsets are not held against the links",
        "an hour would be certified of which a record is missing",
        f"{CERTIFICATE}test_an_hour_is_certified_with_its_offsets_and_each_of_them_must_be_in_a_link",
        Edit("core/proof/certificate.py", 'if at < part["until_offset"]:', "if at < 0:"),
        long=True,
    ),
]
