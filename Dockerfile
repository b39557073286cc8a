# One image with every program of Liquida. The command chooses the program.
#   docker build -t liquida:local .

# Both images are Debian 13. The programs are linked to the glibc of the first and run on that
# of the second, which must not be older.
FROM golang:1.26-trixie AS build
WORKDIR /src
COPY . .
# The TigerBeetle client needs cgo, and so glibc. The caches keep what was downloaded and
# compiled from one build to the next.
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=1 go build -trimpath -ldflags=-s -o /out/ \
    ./services/producer ./services/clearing-engine ./services/bank-simulator ./services/archiver \
    ./loadtest ./deploy/cmd/bootstrap ./deploy/cmd/ready
# A new volume takes over the owner and the mode of the folder that it is mounted on. The image
# holds no keys.
RUN mkdir -p /archive /keys/answers /keys/banks /keys/clients /keys/producer /keys/room && \
    cd /keys && mkdir -p kafka/producer kafka/clearing-engine kafka/bank-simulator kafka/loadtest kafka/room kafka/participants && chmod 700 * kafka/*

# glibc, certificates and the user nonroot (65532). No shell.
FROM gcr.io/distroless/base-debian13:nonroot
COPY --from=build /out/ /usr/local/bin/
COPY --from=build --chown=65532:65532 /keys /keys
COPY --from=build --chown=65532:65532 /archive /archive
# No health check here: compose and Kubernetes define it, for the services only.
USER nonroot
