package crawlgen

import "fmt"

const (
	archivePath = "archive.warc.gz"
	almanac     = "https://almanac.example"
)

// archive writes the WARC file and notes its documents.
type archive struct {
	builder   *builder
	warc      *warcWriter
	info      string // id of the warcinfo record
	sentences *bank
	documents []Document
}

func archiveFile(b *builder) error {
	sentences, err := readBank("almanac")
	if err != nil {
		return err
	}
	a := &archive{builder: b, warc: &warcWriter{rng: b.rng("warc")}, sentences: sentences}
	for _, step := range []func() error{
		a.warcinfo, a.months, a.codings, a.copies, a.notPages, a.withoutHTTP,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	b.file(archivePath, a.warc.out.Bytes(), a.documents...)
	return nil
}

func (a *archive) warcinfo() error {
	content := "software: crawlgen\r\nformat: WARC File Format 1.1\r\ndescription: a small crawl of invented pages\r\n"
	var err error
	a.info, err = a.warc.record("warcinfo", []byte(content),
		field{"Content-Type", "application/warc-fields"}, field{"WARC-Filename", archivePath})
	return err
}

// note adds a document with a target URI for its key.
func (a *archive) note(uri string, doc Document) {
	doc.Key = uri
	a.documents = append(a.documents, doc)
}

// fetched writes the request and the response record of an exchange, and
// returns the digest of the payload.
func (a *archive) fetched(e exchange, doc Document) (string, error) {
	payload := digest(e.body)
	id, err := a.warc.record("response", e.response(),
		field{"WARC-Target-URI", e.uri}, field{"WARC-Warcinfo-ID", a.info},
		field{"WARC-Payload-Digest", payload}, field{"Content-Type", "application/http; msgtype=response"})
	if err != nil {
		return "", err
	}
	a.note(e.uri, doc)
	_, err = a.warc.record("request", e.request(),
		field{"WARC-Target-URI", e.uri}, field{"WARC-Warcinfo-ID", a.info},
		field{"WARC-Concurrent-To", id}, field{"Content-Type", "application/http; msgtype=request"})
	return payload, err
}

const htmlType = "text/html; charset=utf-8"

// plainBody is an exchange whose body is sent as it is.
func plainBody(uri, contentType string, body []byte) exchange {
	return exchange{uri: uri, body: body, fields: []field{
		{"Content-Type", contentType}, {"Content-Length", fmt.Sprint(len(body))},
	}}
}

// months are different pages of one template.
func (a *archive) months() error {
	for _, name := range []string{"January", "February", "April", "June", "July", "September"} {
		p := month(a.builder, a.sentences, name, 1958)
		body, err := p.encodedHTML()
		if err != nil {
			return err
		}
		doc := Document{Group: "almanac-1958-" + name, Note: "same template and sentences as the other months"}
		payload, err := a.fetched(plainBody(almanac+p.Path, htmlType, body), doc)
		if err != nil {
			return err
		}
		switch name {
		case "April":
			err = a.revisit(almanac+p.Path+"?from=years", almanac+p.Path, payload)
		case "June":
			err = a.june(p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// revisit says that uri had the payload that was fetched before.
func (a *archive) revisit(uri, first, payload string) error {
	head := exchange{fields: []field{{"Content-Type", htmlType}}}.response()
	a.note(uri, Document{Group: "-", Expect: NoPage, Note: "revisit record: the payload is that of an earlier response"})
	_, err := a.warc.record("revisit", head,
		field{"WARC-Target-URI", uri}, field{"WARC-Warcinfo-ID", a.info},
		field{"WARC-Profile", "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"},
		field{"WARC-Refers-To-Target-URI", first}, field{"WARC-Payload-Digest", payload},
		field{"Content-Type", "application/http; msgtype=response"})
	return err
}

// june sends the page again under a second address, with session ids in it.
func (a *archive) june(p page) error {
	p.Session = a.builder.rng("june").hex(32)
	p.Views++
	body, err := p.encodedHTML()
	if err != nil {
		return err
	}
	_, err = a.fetched(plainBody(almanac+p.Path+"?sid="+p.Session, htmlType, body),
		Document{Group: "almanac-1958-June", Note: "session id in the address and in every link, and the count"})
	return err
}

// codings sends a page in chunks and another one compressed.
func (a *archive) codings() error {
	p := month(a.builder, a.sentences, "October", 1958)
	body, err := p.encodedHTML()
	if err != nil {
		return err
	}
	_, err = a.fetched(exchange{
		uri:    almanac + p.Path,
		fields: []field{{"Content-Type", htmlType}, {"Transfer-Encoding", "chunked"}},
		body:   chunked(body, 1024),
	}, Document{Group: "almanac-1958-October", Note: "chunked"})
	if err != nil {
		return err
	}

	p = month(a.builder, a.sentences, "December", 1958)
	if body, err = p.encodedHTML(); err != nil {
		return err
	}
	packed := plainBody(almanac+p.Path, htmlType, gzipped(body))
	packed.fields = append(packed.fields, field{"Content-Encoding", "gzip"})
	_, err = a.fetched(packed, Document{Group: "almanac-1958-December", Note: "gzip-encoded body"})
	return err
}

// copies are pages that lie in the folder as files too.
func (a *archive) copies() error {
	for _, v := range []struct {
		slug   string
		change func(*builder, page) (page, error)
		note   string
	}{
		{"ferry", unchanged, "also the file gazette.example/news/ferry.html"},
		{"garden", corrected("two and a half tonnes", "two and a quarter tonnes"), "the file gazette.example/news/garden.html with one word corrected"},
	} {
		p, err := gazettePage(a.builder, v.slug)
		if err != nil {
			return err
		}
		if p, err = v.change(a.builder, p); err != nil {
			return err
		}
		body, err := p.encodedHTML()
		if err != nil {
			return err
		}
		_, err = a.fetched(plainBody("http://gazette.example"+p.Path, htmlType, body),
			Document{Group: v.slug, Note: v.note})
		if err != nil {
			return err
		}
	}
	return nil
}

// notPages are answers that hold no page.
func (a *archive) notPages() error {
	moved := plainBody(almanac+"/", htmlType, nil)
	moved.status = "301 Moved Permanently"
	moved.fields = append(moved.fields, field{"Location", almanac + "/years"})
	gone := plainBody(almanac+"/1957/may.html", htmlType, []byte("<html><body><h1>404 Not Found</h1></body></html>\n"))
	gone.status = "404 Not Found"
	for _, e := range []struct {
		exchange
		note string
	}{
		{moved, "redirect"},
		{gone, "status 404"},
		{plainBody(almanac+"/dot.png", "image/png", dotPNG), "picture"},
	} {
		if _, err := a.fetched(e.exchange, Document{Group: "-", Expect: NoPage, Note: e.note}); err != nil {
			return err
		}
	}
	return nil
}

// dotPNG is a picture of one black pixel.
var dotPNG = []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x00\x00\x00\x00:~\x9bU" +
	"\x00\x00\x00\nIDATx\x9cc`\x00\x00\x00\x02\x00\x01H\xaf\xa4q\x00\x00\x00\x00IEND\xaeB`\x82")

// withoutHTTP are records whose block is the document itself.
func (a *archive) withoutHTTP() error {
	resource := month(a.builder, a.sentences, "March", 1959)
	uri := "file:///book/1959/march.txt"
	_, err := a.warc.record("resource", []byte(resource.text()),
		field{"WARC-Target-URI", uri}, field{"WARC-Warcinfo-ID", a.info}, field{"Content-Type", "text/plain"})
	if err != nil {
		return err
	}
	a.note(uri, Document{Group: "almanac-1959-March", Note: "resource record, plain text"})

	converted := month(a.builder, a.sentences, "June", 1959)
	uri = almanac + "/1959/june.pdf"
	_, err = a.warc.record("conversion", []byte(converted.text()),
		field{"WARC-Target-URI", uri}, field{"WARC-Warcinfo-ID", a.info}, field{"Content-Type", "text/plain"})
	if err != nil {
		return err
	}
	a.note(uri, Document{Group: "almanac-1959-June", Note: "conversion record: the text of a PDF"})

	_, err = a.warc.record("metadata", []byte("hopsFromSeed: L\r\n"),
		field{"WARC-Target-URI", almanac + "/"}, field{"WARC-Warcinfo-ID", a.info}, field{"Content-Type", "application/warc-fields"})
	return err
}
