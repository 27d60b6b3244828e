"""From the options of the process to the settings of the rooms on the request path."""

from __future__ import annotations

from epp.app.options import ServeOptions
from epp.app.request_path import RequestPathSettings
from epp.gateway.context import GatewaySettings
from epp.gateway.overload import OverloadLimits
from epp.gateway.replies import ErrorFormat
from epp.observability.log_level import LogLevelSwitch
from epp.request_control.director_settings import DirectorSettings
from epp.request_control.outliers import OutlierSettings
from epp.request_control.response_headers import ResponseSettings


def request_path_settings(
    options: ServeOptions, log_level: LogLevelSwitch | None = None
) -> RequestPathSettings:
    """The options of the request path, room by room."""
    return RequestPathSettings(
        director=DirectorSettings(
            failure_mode=options.forced_failure_mode,
            decision_timeout=options.decision_timeout,
            max_request_body_bytes=options.max_request_body_bytes,
            use_subset=not options.disable_endpoint_subset_filter,
            emit_endpoint_scores=options.emit_endpoint_scores,
            log_level=log_level,
        ),
        gateway=GatewaySettings(
            max_request_body_bytes=options.max_request_body_bytes,
            body_idle_timeout=options.body_idle_timeout,
            error_format=ErrorFormat(options.error_format),
            skip_response=options.skip_response_processing,
        ),
        response=ResponseSettings(
            served_endpoint_header=options.served_endpoint_header,
            debug_header=options.debug_response_header,
            decision_header=options.decision_header,
        ),
        overload=OverloadLimits(
            streams=options.max_streams,
            buffered_bytes=options.max_buffered_bytes,
            loop_lag_seconds=options.max_loop_lag,
        ),
        outliers=OutlierSettings(consecutive_errors=options.outlier_consecutive_errors),
        decision_log_size=options.decision_log_size,
    )
