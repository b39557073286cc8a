# One image with every program of Liquida; the command says which one runs.
#   docker build -t liquida .

FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY . .
# cgo, for the TigerBeetle client: it links to glibc, which the image below has. The caches
# keep what was downloaded and compiled from one build to the next.
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=1 go build -trimpath -ldflags=-s -o /out/ \
    ./services/producer ./services/clearing-engine ./services/bank-simulator \
    ./loadtest ./deploy/cmd/bootstrap ./deploy/cmd/ready
# A volume that is mounted here first gets the folder's owner. No key is ever in the image.
RUN mkdir -p /keys/answers /keys/clients /keys/producer && \
    cd /keys && mkdir -p kafka/producer kafka/clearing-engine kafka/bank-simulator kafka/loadtest && chmod 700 * kafka/*

# glibc, certificates and a user that is not root; no shell and nothing else.
FROM gcr.io/distroless/base-debian12:nonroot
COPY --from=build /out/ /usr/local/bin/
COPY --from=build --chown=65532:65532 /keys /keys
# No health check here: only the services have one, and compose and Kubernetes say it.
USER nonroot
