# syntax=docker/dockerfile:1
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath \
      -ldflags "-s -w -X github.com/musterhq/muster/cmd/internal/buildinfo.version=${VERSION}" \
      -o /out/muster ./cmd/muster \
 && mkdir /out/data

# Nothing but the static binary, the certificates and an empty data folder.
FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/muster /muster
COPY --from=build --chown=65532:65532 /out/data /data
USER 65532:65532
VOLUME /data
ENV MUSTER_DATA=/data
EXPOSE 4222 8080
# The binary is its own probe: there is no shell and no curl in here.
HEALTHCHECK --interval=10s --timeout=3s --start-period=5m --start-interval=1s --retries=3 \
  CMD ["/muster", "check"]
ENTRYPOINT ["/muster"]
CMD ["serve"]
