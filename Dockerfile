# Two images from one file: `--target edge` for gateways, `--target cloud` for workers.
# Both run as an unprivileged user and keep what must survive a restart in /var/lib/nearfar.
# `nearfar` is PID 1 and handles SIGTERM itself: it finishes, commits and exits with its own code.

FROM python:3.11-slim AS base
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /var/lib/nearfar --shell /usr/sbin/nologin nearfar \
    && install -d -o nearfar -g nearfar -m 0750 /var/lib/nearfar
ENV PATH=/opt/nearfar/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1

# The builders keep pip, its cache and the sources out of the images.
FROM base AS edge-build
RUN python -m venv /opt/nearfar
WORKDIR /src
COPY . .
RUN pip install --no-cache-dir -c constraints.txt '.[onnx]' && pip uninstall --yes --quiet pip setuptools

FROM base AS edge
COPY --from=edge-build /opt/nearfar /opt/nearfar
USER nearfar
WORKDIR /var/lib/nearfar
VOLUME /var/lib/nearfar
ENTRYPOINT ["nearfar"]
CMD ["edge", "/etc/nearfar/pipeline.yaml"]

FROM base AS cloud-build
RUN python -m venv /opt/nearfar
WORKDIR /src
COPY . .
RUN pip install --no-cache-dir -c constraints.txt '.[onnx,cloud]' && pip uninstall --yes --quiet pip setuptools

FROM base AS cloud
COPY --from=cloud-build /opt/nearfar /opt/nearfar
USER nearfar
WORKDIR /var/lib/nearfar
VOLUME /var/lib/nearfar
ENTRYPOINT ["nearfar"]
CMD ["cloud", "/etc/nearfar/worker.yaml"]
