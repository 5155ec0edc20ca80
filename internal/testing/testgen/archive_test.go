package testgen

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/neardup/neardup/fingerprint"
	visible "github.com/neardup/neardup/fingerprint/page"
	"github.com/neardup/neardup/internal/match"
)

func largeArchive(t *testing.T, form string, pages int) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := writeArchive(&out, archiveOptions{Seed: 3, Pages: pages, Bytes: 60_000, Form: form}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Pages of a large archive have the size that was asked for, about as much text and as
// many tags as real ones, and one of ten is a copy of an earlier one.
func TestLargeArchivePages(t *testing.T) {
	const pages = 40
	signer, err := visible.NewSigner(visible.Visible, fingerprint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	analyzer := signer.Analyzer()
	var sigs []fingerprint.Signature
	size, text, tags := 0, 0, 0
	lines := json.NewDecoder(bytes.NewReader(largeArchive(t, "jsonl", pages)))
	for lines.More() {
		var line struct{ URL, HTML string }
		if err := lines.Decode(&line); err != nil || line.URL == "" {
			t.Fatal(err, line.URL)
		}
		shown := signer.Text(visible.HTML, htmlType, []byte(line.HTML))
		size, text, tags = size+len(line.HTML), text+len(shown), tags+strings.Count(line.HTML, "<")-strings.Count(line.HTML, "</")
		sigs = append(sigs, analyzer.Text(shown))
	}
	if mean := size / pages; len(sigs) != pages || mean < 55_000 || mean > 65_000 {
		t.Errorf("%d pages of %d bytes", len(sigs), mean)
	}
	if share := float64(text) / float64(size); share < 0.10 || share > 0.15 {
		t.Errorf("%.2f of the pages is text", share)
	}
	if each := size / tags; each < 90 || each > 140 {
		t.Errorf("a start tag every %d bytes", each)
	}
	t.Logf("%.3f of %d bytes a page is text, a start tag every %d bytes", float64(text)/float64(size), size/pages, size/tags)
	copies, rule := 0, match.Default(maxDistance)
	for i := range sigs {
		for j := range i {
			d := sigs[i].Fingerprint.Distance(sigs[j].Fingerprint)
			if d <= maxDistance && rule.Allows(d, sigs[i], sigs[j]) {
				copies++
				break
			}
		}
	}
	if copies != pages/10 {
		t.Errorf("%d pages match an earlier one, want %d", copies, pages/10)
	}
}

func TestLargeArchiveForms(t *testing.T) {
	plain := largeArchive(t, "warc", 5)
	z, err := gzip.NewReader(bytes.NewReader(largeArchive(t, "warc.gz", 5)))
	if err != nil {
		t.Fatal(err)
	}
	inflated, err := io.ReadAll(z)
	if err != nil || !bytes.Equal(inflated, plain) {
		t.Errorf("compressed it is another one: %v", err)
	}
	if n := bytes.Count(plain, []byte("WARC/1.1\r\n")); n != 5 {
		t.Errorf("%d records of 5 pages", n)
	}
	if n := bytes.Count(largeArchive(t, "wet", 5), []byte("WARC-Type: conversion\r\n")); n != 5 {
		t.Errorf("%d texts of 5 pages", n)
	}
}

// TestWriteArchive writes an archive into the file that NEARDUP_ARCHIVE names; its ending
// says in which form.
func TestWriteArchive(t *testing.T) {
	name := os.Getenv("NEARDUP_ARCHIVE")
	if name == "" {
		t.Skip("skipped: NEARDUP_ARCHIVE names no file")
	}
	o := archiveOptions{Seed: 1, Pages: 1000, Bytes: 60_000}
	if pages := os.Getenv("NEARDUP_PAGES"); pages != "" {
		var err error
		if o.Pages, err = strconv.Atoi(pages); err != nil {
			t.Fatal(err)
		}
	}
	_, o.Form, _ = strings.Cut(filepath.Base(name), ".")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(writeArchive(f, o), f.Close()); err != nil {
		t.Fatal(err)
	}
}
