# Images from one file: `--target edge` for gateways, `--target cloud` for workers; `demo-edge`, `demo-cloud` and
# `demo` add the demo's clip and model. All run as an unprivileged user and keep what must survive a restart in
# /var/lib/nearfar. `nearfar` is PID 1 and handles SIGTERM itself: it finishes, commits and exits with its own code.

FROM python:3.11-slim AS base
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /var/lib/nearfar --shell /usr/sbin/nologin nearfar \
    && install -d -o nearfar -g nearfar -m 0750 /var/lib/nearfar
ENV PATH=/opt/nearfar/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
WORKDIR /var/lib/nearfar

# Dependencies first, against empty packages: a change of the sources does not install them again. The builders keep
# pip and its leavings out of the images.
FROM base AS build
RUN python -m venv --without-pip /opt/nearfar
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
RUN mkdir edge cloud protos pipelines nearfar && touch edge/__init__.py nearfar/__init__.py
ENV INSTALL="pip --python /opt/nearfar/bin/python install --no-cache-dir -c constraints.txt"

FROM build AS edge-build
RUN $INSTALL '.[onnx,grpc,metrics,mqtt]'
COPY . .
RUN $INSTALL --no-deps --force-reinstall .

FROM build AS cloud-build
RUN $INSTALL '.[onnx,grpc,cloud,postgres]'
COPY . .
RUN $INSTALL --no-deps --force-reinstall .

FROM build AS demo-build
RUN $INSTALL '.[demo]'
COPY . .
# The package index is asked by the image's own pip.
RUN /usr/local/bin/python -m nearfar.assets /opt/nearfar-assets && $INSTALL --no-deps --force-reinstall .

FROM base AS edge
COPY --from=edge-build /opt/nearfar /opt/nearfar
USER nearfar
VOLUME /var/lib/nearfar
ENTRYPOINT ["nearfar"]
CMD ["edge", "/etc/nearfar/pipeline.yaml"]

FROM base AS cloud
COPY --from=cloud-build /opt/nearfar /opt/nearfar
USER nearfar
VOLUME /var/lib/nearfar
ENTRYPOINT ["nearfar"]
CMD ["cloud", "/etc/nearfar/worker.yaml"]

FROM edge AS demo-edge
COPY --from=demo-build /opt/nearfar-assets /opt/nearfar-assets

FROM cloud AS demo-cloud
COPY --from=demo-build /opt/nearfar-assets /opt/nearfar-assets

# docker run --rm nearfar-demo: the main job, judged, inside one container.
FROM base AS demo
COPY --from=demo-build /opt/nearfar /opt/nearfar
COPY --from=demo-build /opt/nearfar-assets /opt/nearfar-assets
USER nearfar
VOLUME /var/lib/nearfar
ENTRYPOINT ["nearfar"]
CMD ["demo", "--assets", "/opt/nearfar-assets", "--out", "/var/lib/nearfar/demo"]
