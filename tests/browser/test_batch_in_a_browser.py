"""Tests in a browser that the columns of a batch's page have room for what stands in them."""

from __future__ import annotations

import pytest

from browser.conftest import PHONE, WIDE

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.mark.parametrize("width", [WIDE, PHONE])
def test_who_ran_an_attempt_is_read_in_words_and_not_letter_by_letter(opened, shop, width):
    ((batch,),) = shop.ask("select batch_id from lockstep.batch where pipeline = 'payments' and state = 'planned'")

    page = opened(f"/lockstep/dags/payments/batches/{batch}", width).page
    page.locator("h1").wait_for()

    widths = page.eval_on_selector_all(".owner", "found => found.map(each => each.getBoundingClientRect().width)")
    assert widths
    assert min(widths) > 100, widths
