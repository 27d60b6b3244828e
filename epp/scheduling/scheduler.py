"""The scheduling cycle: a profile handler names profiles, they run, the handler decides."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from epp.framework.errors import ConfigError, ErrorCode, PlainRejection, Rejection
from epp.framework.scheduling import ProfileHandler
from epp.framework.scheduling_results import ProfileResult, SchedulingResult
from epp.scheduling.freshness import fresh_among
from epp.scheduling.observer import PluginObserver, Unobserved
from epp.scheduling.profile import SchedulerProfile
from epp.scheduling.steps import Steps
from epp.support.plugin_faults import PLUGIN_FAULTS, PluginFault

if TYPE_CHECKING:
    from epp.framework.endpoint import Endpoint
    from epp.framework.request import InferenceRequest


class ProfileScheduler:
    """Chooses among candidates by the profiles of a configuration.

    `schedule` is all there is to it: it waits for nothing, and needs no gateway, no cluster and,
    without an observer, no metrics.
    """

    def __init__(
        self,
        profiles: Sequence[SchedulerProfile],
        handler: ProfileHandler,
        *,
        observer: PluginObserver | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._profiles = {profile.name: profile for profile in profiles}
        self._names = tuple(profile.name for profile in profiles)
        if len(self._profiles) < len(self._names):
            raise ConfigError(f"profile names must differ, got {', '.join(self._names)}")
        handler.check(self._names)
        self.profiles = tuple(profiles)
        self.handler = handler
        self._now = now
        steps = Steps(observer or Unobserved())
        self._picking = steps.of("ProfilePicker", handler)
        self._processing = steps.of("ProcessProfilesResults", handler)

    def schedule(
        self, request: InferenceRequest, candidates: Sequence[Endpoint]
    ) -> SchedulingResult:
        """Pick for `request` among `candidates`.

        Raises `Rejection` when no endpoint may serve it; anything else it raises is a fault.
        """
        candidates = tuple(fresh_among(candidates))
        results: dict[str, ProfileResult | None] = {}
        rejection: Rejection | None = None
        while True:
            chosen, ended = self._pick(request, results)
            if not chosen:
                break
            for name in chosen:
                try:
                    profile = self._profile(request, name, results)
                    results[name] = profile.run(request, candidates)
                except Rejection as error:
                    results[name] = None
                    rejection = rejection or error
        if not results:
            # The reference's status; the client's own header may be what names no profile.
            raise PlainRejection(
                ErrorCode.RESOURCE_EXHAUSTED,
                f"failed to run any scheduler profile for request {request.id}",
            )
        return self._process(request, results, rejection, ended)

    def _profile(
        self, request: InferenceRequest, name: str, results: dict[str, ProfileResult | None]
    ) -> SchedulerProfile:
        profile = self._profiles.get(name)
        if profile is not None and name not in results:
            return profile
        # Not the name of an unknown one, which may be what a client has sent: this is logged.
        what = "an unknown profile" if profile is None else f"the profile {name!r} again"
        fault = PluginFault(f"profile handler {self.handler.name!r} named {what}")
        self._picking.failed(fault, request)
        raise fault

    def _pick(
        self, request: InferenceRequest, results: dict[str, ProfileResult | None]
    ) -> tuple[Sequence[str], float]:
        """The profiles to run next, and when that was known."""
        step, started = self._picking, self._now()
        try:
            chosen = tuple(step.plugin.pick(request, self._names, results))
        except Rejection:
            raise
        except PLUGIN_FAULTS as error:
            step.failed(error, request)
            raise
        finally:
            ended = self._now()
            step.ended(request, started, ended)
        return chosen, ended

    def _process(
        self,
        request: InferenceRequest,
        results: dict[str, ProfileResult | None],
        rejection: Rejection | None,
        started: float,
    ) -> SchedulingResult:
        step = self._processing
        try:
            result = step.plugin.process(request, results)
            if result.primary not in result.profiles:
                raise PluginFault(
                    f"profile handler {step.name!r} made a profile that picked nothing"
                    " the primary one"
                )
        except Rejection as outcome:
            # Why a profile found nothing says more than that it did, unless the handler knows more.
            if rejection is None or outcome.drop_reason:
                raise
            raise rejection from outcome
        except PLUGIN_FAULTS as error:
            step.failed(error, request)
            raise
        finally:
            step.ended(request, started, self._now())
        return result
