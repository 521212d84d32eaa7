# An image of the server without a shell. It runs as an unprivileged user, with a read-only root file system:
#
#   docker build --tag gatewright .
#   docker run --read-only --publish 8080:8080 --volume gatewright:/data \
#     --env GATEWRIGHT__AUTH__JWT_SECRET="$(docker run --rm gatewright secret)" \
#     --env GATEWRIGHT__SERVER__PUBLIC_URL=https://example.com gatewright
#
# A configuration file goes to /data/gatewright.toml, or anywhere with `serve --config FILE`.

FROM rust:1.95-bookworm AS build
WORKDIR /source
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/source/target \
    cargo build --locked --profile dist --package gatewright-cli \
    && install -D target/dist/gatewright /image/usr/bin/gatewright \
    && install -d -m 700 /image/data

FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /image/usr/bin/gatewright /usr/bin/gatewright
COPY --from=build --chown=65532:65532 /image/data /data
# The database and SQLite's files beside it. The server writes nothing else.
VOLUME /data
WORKDIR /data
ENV GATEWRIGHT__SERVER__LISTEN=0.0.0.0:8080
EXPOSE 8080
USER 65532:65532
ENTRYPOINT ["/usr/bin/gatewright"]
CMD ["serve"]
