# The neardup command in an image with nothing else. The index goes to the volume:
#
#   docker build -t neardup .
#   docker run --rm -i -v pages:/data neardup dedup -index pages.neardup - < crawl.warc.gz
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o /image/neardup ./cmd/neardup && mkdir /image/data /image/tmp

FROM scratch
COPY --from=build --chown=65532:65532 /image /
USER 65532:65532
WORKDIR /data
VOLUME /data
ENTRYPOINT ["/neardup"]
