"""Lists mutants of the chain of commits and decisions, and of the proof of a certificate."""

from __future__ import annotations

from mutants.mutant import Edit, one

CERTIFICATE = "tests/cli/test_certificate.py::"
REWRITTEN = f"{CERTIFICATE}test_verify_names_what_was_rewritten_and_nothing_is_certified"
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
        ),
        Edit(
            "ledger/proof/chain.sql",
            "\n        or w.digest <> encode(sha256(convert_to(w.previous || e'\\n' || w.record, 'UTF8')), 'hex')",
            "",
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
