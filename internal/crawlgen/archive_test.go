package crawlgen

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"testing"
)

// record is a WARC record as the test reads it back.
type record struct {
	header  textproto.MIMEHeader
	content []byte
}

// members returns the content of each gzip member.
func members(data []byte) ([][]byte, error) {
	in := bufio.NewReader(bytes.NewReader(data))
	var all [][]byte
	for {
		zr, err := gzip.NewReader(in)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		zr.Multistream(false)
		member, err := io.ReadAll(zr)
		if err != nil {
			return nil, err
		}
		all = append(all, member)
	}
}

func parseRecord(member []byte) (record, error) {
	version, rest, _ := bytes.Cut(member, []byte("\r\n"))
	if string(version) != "WARC/1.1" {
		return record{}, fmt.Errorf("version line %q", version)
	}
	in := bufio.NewReader(bytes.NewReader(rest))
	header, err := textproto.NewReader(in).ReadMIMEHeader()
	if err != nil {
		return record{}, err
	}
	tail, err := io.ReadAll(in)
	if err != nil {
		return record{}, err
	}
	length, err := strconv.Atoi(header.Get("Content-Length"))
	if err != nil {
		return record{}, err
	}
	if len(tail) != length+4 || string(tail[length:]) != "\r\n\r\n" {
		return record{}, fmt.Errorf("%s: %d bytes after the header, want Content-Length %d and two line ends", header.Get("WARC-Record-ID"), len(tail), length)
	}
	return record{header, tail[:length]}, nil
}

// body is the decoded body of the HTTP response in a record.
func (r record) body() (*http.Response, []byte, error) {
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(r.content)), nil)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	var in io.Reader = resp.Body
	if resp.Header.Get("Content-Encoding") == "gzip" {
		if in, err = gzip.NewReader(in); err != nil {
			return nil, nil, err
		}
	}
	body, err := io.ReadAll(in)
	return resp, body, err
}

func readArchive(t *testing.T, data []byte) []record {
	t.Helper()
	raw, err := members(data)
	if err != nil {
		t.Fatal(err)
	}
	var records []record
	for i, member := range raw {
		r, err := parseRecord(member)
		if err != nil {
			t.Fatalf("member %d: %v", i, err)
		}
		records = append(records, r)
	}
	return records
}

// The archive must be a correct WARC file, or it would teach the readers that
// are tested on it to be wrong.
func TestArchiveIsWellFormed(t *testing.T) {
	crawl := generate(t)
	kinds := make(map[string]int)
	ids := make(map[string]bool)
	codings := make(map[string]int)
	for _, r := range readArchive(t, crawl.file(t, archivePath)) {
		kind := r.header.Get("WARC-Type")
		kinds[kind]++
		id := r.header.Get("WARC-Record-ID")
		if ids[id] {
			t.Errorf("record id %s occurs twice", id)
		}
		ids[id] = true
		if got, want := r.header.Get("WARC-Block-Digest"), digest(r.content); got != want {
			t.Errorf("%s: block digest %s, want %s", id, got, want)
		}
		for _, name := range []string{"WARC-Warcinfo-ID", "WARC-Concurrent-To"} {
			if other := r.header.Get(name); other != "" && !ids[other] {
				t.Errorf("%s: %s names %s, which no earlier record has", id, name, other)
			}
		}
		switch kind {
		case "response":
			resp, body, err := r.body()
			if err != nil {
				t.Errorf("%s: %v", r.header.Get("WARC-Target-URI"), err)
				continue
			}
			if resp.StatusCode == http.StatusOK && len(body) == 0 {
				t.Errorf("%s: empty body", r.header.Get("WARC-Target-URI"))
			}
			codings[strings.Join(resp.TransferEncoding, ",")+resp.Header.Get("Content-Encoding")]++
		case "request":
			if _, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(r.content))); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
	}
	for _, kind := range []string{"warcinfo", "request", "response", "revisit", "resource", "conversion", "metadata"} {
		if kinds[kind] == 0 {
			t.Errorf("no %s record", kind)
		}
	}
	for _, coding := range []string{"chunked", "gzip"} {
		if codings[coding] != 1 {
			t.Errorf("%d responses with coding %s, want 1", codings[coding], coding)
		}
	}
}

func TestGzippedCanBeRead(t *testing.T) {
	for _, size := range []int{0, 1, 0xffff, 0x10000, 0x20001} {
		want := bytes.Repeat([]byte{7}, size)
		zr, err := gzip.NewReader(bytes.NewReader(gzipped(want)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(zr)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes: read back %d bytes, error %v", size, len(got), err)
		}
	}
}
