# One image with every program of Liquida; the command says which one runs.
#   docker build -t liquida .

FROM golang:1.26-bookworm AS build
WORKDIR /src
# The modules' files alone: the layer with the downloads stays while only code changes.
COPY go.work go.work.sum ./
COPY proto/go.mod proto/go.sum proto/
COPY platform/go.mod platform/go.sum platform/
COPY services/producer/go.mod services/producer/go.sum services/producer/
COPY services/clearing-engine/go.mod services/clearing-engine/go.sum services/clearing-engine/
COPY services/bank-simulator/go.mod services/bank-simulator/go.sum services/bank-simulator/
COPY loadtest/go.mod loadtest/go.sum loadtest/
COPY deploy/go.mod deploy/go.sum deploy/
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
# cgo, for the TigerBeetle client: it links to glibc, which the image below has.
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=1 go build -trimpath -ldflags=-s -o /out/ \
    ./services/producer ./services/clearing-engine ./services/bank-simulator \
    ./loadtest ./deploy/cmd/bootstrap ./deploy/cmd/ready

# glibc, certificates and a user that is not root; no shell and nothing else.
FROM gcr.io/distroless/base-debian12:nonroot
COPY --from=build /out/ /usr/local/bin/
# No health check here: only the services have one, and compose and Kubernetes say it.
USER nonroot
