ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS builder
WORKDIR /src
RUN python -m venv --without-pip /opt/epp
COPY requirements.lock requirements-build.lock ./
RUN pip --python /opt/epp install --no-cache-dir --no-compile --only-binary :all: --require-hashes -r requirements.lock
RUN pip install --no-cache-dir --only-binary :all: --require-hashes -r requirements-build.lock
COPY pyproject.toml README.md LICENSE ./
COPY epp epp
RUN python -m hatchling build -t wheel -d dist
RUN pip --python /opt/epp install --no-compile --no-index --no-deps dist/*.whl
# Bytecode is written now: the picker itself may run on a read-only root. It goes by the contents of its sources:
# a build that sets the dates of all files would make it worthless.
RUN python -m compileall -q --invalidation-mode checked-hash /opt/epp/lib

FROM python:${PYTHON}-slim
ARG VERSION=""
ARG REVISION=""
LABEL org.opencontainers.image.title="inference-endpoint-picker" \
      org.opencontainers.image.description="An Endpoint Picker for InferencePool" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# The base image comes without bytecode of the standard library.
RUN python -m compileall -q --invalidation-mode checked-hash -x /pip/ /usr/local/lib/python3*
COPY --from=builder /opt/epp /opt/epp
ENV PATH=/opt/epp/bin:${PATH} PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# Users without a name have no home, and not every runtime sets one; the Kubernetes client can't be loaded without.
ENV HOME=/
# For epp version, and the label commit of llm_d_epp_info.
ENV EPP_REVISION=${REVISION}
# A number, so that runAsNonRoot can be checked without a look into /etc/passwd.
USER 65532:65532
# ext_proc, health, metrics
EXPOSE 9002 9003 9090
ENTRYPOINT ["epp", "serve"]
