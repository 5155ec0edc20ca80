# The neardup command in an image with nothing else. The index goes to the volume:
#
#   docker build -t neardup .
#   docker run --rm -i -v pages:/data neardup dedup --index pages.neardup - < crawl.warc.gz
#
# Without arguments after the name it serves an index; the file of the token must be given:
#
#   openssl rand -hex 32 > token
#   docker run -d -p 7490:7490 -v pages:/data -v "$PWD/token:/token:ro" --stop-timeout 60 neardup
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o /image/neardup ./cmd/neardup && mkdir /image/data /image/tmp

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build --chown=65532:65532 /image /
USER 65532:65532
WORKDIR /data
VOLUME /data
EXPOSE 7490
ENTRYPOINT ["/neardup"]
CMD ["serve", "--index", "pages.neardup", "--listen", ":7490", "--token-file", "/token"]
