"""Endpoints that answer with errors lose their traffic for a while (pitfall 26)."""

from __future__ import annotations

from collections import Counter

from tests.fakes.pickers.picker import Picker, running_picker

BAD, GOOD = "10.0.0.1:8000", "10.0.0.2:8000"
BODY = b'{"model":"m","prompt":"a"}'


async def served(picker: Picker) -> str:
    """One request; the bad endpoint answers it with 503."""
    exchange = picker.exchange()
    await exchange.post(BODY)
    address = await exchange.picked()
    await exchange.response_headers({":status": "503" if address == BAD else "200"}, end=True)
    await exchange.answer()
    await exchange.half_close()
    await picker.settled()
    return address


async def test_five_errors_in_a_row_cost_an_endpoint_its_traffic() -> None:
    async with running_picker([BAD, GOOD]) as picker:
        before = Counter([await served(picker) for _ in range(10)])
        after = Counter([await served(picker) for _ in range(20)])

        assert before[BAD] == 5
        assert after == {GOOD: 20}
        assert picker.metric("epp_endpoint_ejections_total") == 1
        assert picker.metric("epp_ejected_endpoints") == 1


async def test_errors_that_the_gateway_made_by_itself_are_no_endpoints() -> None:
    async with running_picker([BAD, GOOD]) as picker:
        for _ in range(12):
            exchange = picker.exchange()
            await exchange.post(BODY)
            await exchange.picked()
            details = {"envoy.filters.http.ext_proc": {"response.code_details": "maintenance_mode"}}
            await exchange.response_headers({":status": "503"}, end=True, attributes=details)
            await exchange.answer()
            await exchange.half_close()
            await picker.settled()

        assert picker.metric("epp_endpoint_errors_total") == 0
        assert picker.metric("epp_endpoint_ejections_total") == 0
        assert picker.metric("epp_responses_total", code_class="5xx") == 12


async def test_an_endpoint_that_left_is_not_ejected_any_more() -> None:
    async with running_picker([BAD, GOOD]) as picker:
        for _ in range(10):
            await served(picker)
        assert picker.metric("epp_ejected_endpoints") == 1

        picker.datastore.delete_pod(picker.endpoint(BAD).id.pod_uid)

        assert picker.metric("epp_ejected_endpoints") == 0
        assert picker.path.outliers.problem is None


async def test_a_server_that_never_answers_loses_its_traffic() -> None:
    now = 1000.0
    async with running_picker([BAD, GOOD], now=lambda: now) as picker:
        for _ in range(5):
            exchange = picker.exchange()
            await exchange.post(BODY)
            while await exchange.picked() != BAD:
                exchange.cancel()
                exchange = picker.exchange()
                await exchange.post(BODY)
            now += 10.0
            exchange.cancel()
            await picker.settled()

        assert {await served(picker) for _ in range(10)} == {GOOD}
