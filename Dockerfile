# notify-server and notify on an image with only a C library and root certificates: no shell, no
# package manager, no root.
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --profile dist --locked -p notify-push-server -p notify-push-cli \
    && install -D -t /out/bin target/dist/notify-server target/dist/notify \
    && install -d /out/licences && target=$(rustc --print host-tuple) \
    && ./scripts/third-party.sh notify-server "$target" /out/licences/notify-server-licences.txt \
    && ./scripts/third-party.sh notify-cli "$target" /out/licences/notify-licences.txt \
    && install -d -m 0700 /out/lib/notify

# The same Debian as above, whose C library the binaries need.
FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /out/bin/ /usr/bin/
COPY --from=build /out/licences/ /usr/share/doc/notify/
# The folder must belong to the user before a volume is mounted over it.
COPY --from=build --chown=65532:65532 /out/lib/ /var/lib/
ENV NOTIFY_LISTEN=0.0.0.0:8080 NOTIFY_DATA_DIR=/var/lib/notify
USER 65532:65532
VOLUME /var/lib/notify
EXPOSE 8080
# Open files: run it with --ulimit nofile=65536:65536 if the runtime's own limit is lower.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=6s --start-period=30s --retries=3 \
    CMD ["/usr/bin/notify-server", "healthcheck"]
ENTRYPOINT ["/usr/bin/notify-server"]
