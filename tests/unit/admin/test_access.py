from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from epp.admin import access as module
from epp.admin.access import Access, TooManyReviews, Verdict
from epp.support.access import Identity, ReviewFailed
from tests.fakes.clock import Clock
from tests.fakes.eventually import eventually

READER = Identity(username="prometheus", groups=("system:authenticated",))
OTHER = Identity(username="other")


class FakeReviews:
    """Knows a few tokens, and who may read `/metrics`."""

    def __init__(self) -> None:
        self.tokens = {"reader": READER, "other": OTHER}
        self.readers = {"prometheus"}
        self.asked: list[str] = []
        self.fails = False
        self.goes_on = asyncio.Event()
        self.goes_on.set()

    async def authenticate(self, token: str) -> Identity | None:
        self.asked.append(token)
        await self.goes_on.wait()
        if self.fails:
            raise ReviewFailed("unreachable", "nobody is there")
        return self.tokens.get(token)

    async def authorize(self, identity: Identity, path: str, verb: str) -> bool:
        self.asked.append(f"{verb} {path} {identity.username}")
        return path == "/metrics" and identity.username in self.readers


@pytest.fixture
def reviews() -> FakeReviews:
    return FakeReviews()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def access(reviews: FakeReviews, clock: Clock) -> Access:
    return Access(reviews, clock)


async def verdicts(access: Access, tokens: Iterable[str]) -> list[Verdict]:
    return [await access.verdict(token, "/metrics", "get") for token in tokens]


async def test_who_may_and_who_may_not_and_who_is_nobody(access: Access) -> None:
    found = await verdicts(access, ("reader", "other", "made-up"))

    assert found == [Verdict.ALLOWED, Verdict.FORBIDDEN, Verdict.INVALID_TOKEN]


async def test_each_path_and_verb_is_a_right_of_its_own(access: Access) -> None:
    assert await access.verdict("reader", "/metrics", "get") is Verdict.ALLOWED
    assert await access.verdict("reader", "/debug/plugins/state", "get") is Verdict.FORBIDDEN


async def test_answers_are_remembered(access: Access, reviews: FakeReviews) -> None:
    tokens = ("reader", "other", "made-up")
    await verdicts(access, tokens)
    asked = len(reviews.asked)

    assert await verdicts(access, tokens) == [
        Verdict.ALLOWED,
        Verdict.FORBIDDEN,
        Verdict.INVALID_TOKEN,
    ]
    assert len(reviews.asked) == asked


async def test_a_token_that_was_revoked_is_refused_a_minute_later(
    access: Access, reviews: FakeReviews, clock: Clock
) -> None:
    await verdicts(access, ["reader"])
    del reviews.tokens["reader"]

    clock.now += module.ACCEPTED_SECONDS - 1
    assert await verdicts(access, ["reader"]) == [Verdict.ALLOWED]
    clock.now += 1
    assert await verdicts(access, ["reader"]) == [Verdict.INVALID_TOKEN]


async def test_rights_that_are_given_and_taken_are_seen_after_a_while(
    access: Access, reviews: FakeReviews, clock: Clock
) -> None:
    await verdicts(access, ("reader", "other"))
    reviews.readers = {"other"}

    clock.now += module.DENIED_SECONDS
    assert await verdicts(access, ("reader", "other")) == [Verdict.ALLOWED, Verdict.ALLOWED]
    clock.now += module.ALLOWED_SECONDS
    assert await verdicts(access, ("reader", "other")) == [Verdict.FORBIDDEN, Verdict.ALLOWED]


async def test_a_token_that_becomes_valid_is_let_in_after_a_while(
    access: Access, reviews: FakeReviews, clock: Clock
) -> None:
    await verdicts(access, ["new"])
    reviews.tokens["new"] = READER

    assert await verdicts(access, ["new"]) == [Verdict.INVALID_TOKEN]
    clock.now += module.REFUSED_SECONDS
    assert await verdicts(access, ["new"]) == [Verdict.ALLOWED]


async def test_nobody_is_let_in_when_nobody_can_be_asked(
    access: Access, reviews: FakeReviews, clock: Clock
) -> None:
    await verdicts(access, ["reader"])
    reviews.fails = True
    clock.now += module.ACCEPTED_SECONDS

    with pytest.raises(ReviewFailed):
        await verdicts(access, ["reader"])

    reviews.fails = False
    assert await verdicts(access, ["reader"]) == [Verdict.ALLOWED]


async def test_made_up_tokens_are_not_all_asked_about(
    access: Access, reviews: FakeReviews, clock: Clock
) -> None:
    await verdicts(access, (f"made-up-{n}" for n in range(int(module.BURST))))

    with pytest.raises(TooManyReviews):
        await verdicts(access, ["one-more"])
    assert "one-more" not in reviews.asked

    clock.now += 1 / module.REVIEWS_PER_SECOND
    assert await verdicts(access, ["one-more"]) == [Verdict.INVALID_TOKEN]


async def test_made_up_tokens_keep_nobody_out_who_was_let_in_before(
    access: Access, clock: Clock
) -> None:
    await verdicts(access, ["reader"])
    for _ in range(3):
        clock.now += module.ACCEPTED_SECONDS
        with pytest.raises(TooManyReviews):
            await verdicts(access, (f"made-up-{clock.now}-{n}" for n in range(100)))

        assert await verdicts(access, ["reader"]) == [Verdict.ALLOWED]


async def test_made_up_tokens_that_wait_for_answers_let_those_pass_who_were_let_in_before(
    access: Access, reviews: FakeReviews, clock: Clock
) -> None:
    await verdicts(access, ["reader"])
    clock.now += 301
    reviews.goes_on.clear()
    made_up = [asyncio.create_task(verdicts(access, [f"made-up-{each}"])) for each in range(20)]
    await eventually(lambda: "made-up-3" in reviews.asked)
    reviews.asked.clear()

    scrape = asyncio.create_task(verdicts(access, ["reader"]))
    await eventually(lambda: bool(reviews.asked))

    assert reviews.asked == ["reader"]
    reviews.goes_on.set()
    assert await scrape == [Verdict.ALLOWED]
    await asyncio.gather(*made_up)


async def test_no_more_answers_are_kept_than_there_is_room_for(
    access: Access, reviews: FakeReviews, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_ANSWERS", 2)
    reviews.tokens = dict.fromkeys("abc", READER)
    await verdicts(access, "abc")
    reviews.asked.clear()

    await verdicts(access, "cba")

    assert reviews.asked == ["a"]


async def test_the_same_token_at_the_same_time_costs_no_more_than_a_few_questions(
    access: Access, reviews: FakeReviews, clock: Clock
) -> None:
    await verdicts(access, ["reader"])
    clock.now += module.ACCEPTED_SECONDS
    reviews.asked.clear()
    reviews.goes_on.clear()
    tasks = [asyncio.ensure_future(verdicts(access, ["reader"])) for _ in range(50)]
    await asyncio.sleep(0)
    reviews.goes_on.set()

    assert await asyncio.gather(*tasks) == [[Verdict.ALLOWED]] * 50
    assert len(reviews.asked) == module.MOST_REVIEWS_AT_ONCE


async def test_a_question_without_an_answer_ends(
    access: Access, reviews: FakeReviews, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DEADLINE_SECONDS", 0.01)
    reviews.goes_on.clear()

    with pytest.raises(ReviewFailed, match=r"no answer within 0.01 s"):
        await verdicts(access, ["reader"])


async def test_no_token_is_kept(access: Access) -> None:
    await verdicts(access, ("reader", "made-up"))

    kept = repr({name: getattr(access, name).__dict__ for name in ("_accepted", "_refused")})
    assert "prometheus" in kept
    assert "'reader'" not in kept
    assert "made-up" not in kept
