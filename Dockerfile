# Two images from one file: `--target edge` for gateways, `--target cloud` for workers.
# Both run as an unprivileged user and keep what must survive a restart in /var/lib/nearfar.
# `nearfar` is PID 1 and handles SIGTERM itself: it finishes, commits and exits with its own code.

FROM python:3.11-slim AS base
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /var/lib/nearfar --shell /usr/sbin/nologin nearfar \
    && install -d -o nearfar -g nearfar -m 0750 /var/lib/nearfar
ENV PATH=/opt/nearfar/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

# The builders keep the sources and pip's leavings out of the images; pip stays outside the environment.
FROM base AS edge-build
RUN python -m venv --without-pip /opt/nearfar
WORKDIR /src
COPY . .
RUN pip --python /opt/nearfar/bin/python install --no-cache-dir -c constraints.txt '.[onnx]'

FROM edge-build AS cloud-build
RUN pip --python /opt/nearfar/bin/python install --no-cache-dir -c constraints.txt '.[onnx,cloud]'

FROM base AS edge
COPY --from=edge-build /opt/nearfar /opt/nearfar
USER nearfar
WORKDIR /var/lib/nearfar
VOLUME /var/lib/nearfar
ENTRYPOINT ["nearfar"]
CMD ["edge", "/etc/nearfar/pipeline.yaml"]

FROM base AS cloud
COPY --from=cloud-build /opt/nearfar /opt/nearfar
USER nearfar
WORKDIR /var/lib/nearfar
VOLUME /var/lib/nearfar
ENTRYPOINT ["nearfar"]
CMD ["cloud", "/etc/nearfar/worker.yaml"]
