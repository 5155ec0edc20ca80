package corpus

import (
	"bytes"
	"strconv"
	"strings"
)

// payload is what a record holds for a reader of it.
type payload struct {
	status           int // 0 where it did not come by HTTP
	contentType      string
	contentEncoding  string
	transferEncoding string
	body             []byte
}

// isHTTP says whether a block is an HTTP message.
func isHTTP(h recordHeader, block []byte) bool {
	return mediaType(h.contentType) == "application/http" ||
		h.kind == "response" && h.contentType == "" && bytes.HasPrefix(block, []byte("HTTP/"))
}

// parseHTTP reads an HTTP response as browsers do, not as net/http does, which
// refuses much that crawls are full of: lines that end with LF only, header
// lines without a colon, "ICY 200 OK", "HTTP/2 200", no reason, interim
// responses in front.
func parseHTTP(block []byte) (payload, *Skip) {
	for {
		status, ok := parseStatus(block)
		if !ok {
			line, _, _ := bytes.Cut(block[:min(len(block), 60)], []byte{'\n'})
			return payload{}, &Skip{Reason: "bad http", Detail: "no status line: " + strconv.Quote(string(line)), Document: true}
		}
		header, body := cutHeader(block)
		if status < 200 && bytes.HasPrefix(body, []byte("HTTP/")) {
			block = body
			continue
		}
		p := payload{status: status, body: body}
		for name, value := range headerFields(header) {
			switch strings.ToLower(string(name)) {
			case "content-type":
				p.contentType = string(value) // the last one counts, as in browsers
			case "content-encoding":
				p.contentEncoding = joinList(p.contentEncoding, value)
			case "transfer-encoding":
				p.transferEncoding = joinList(p.transferEncoding, value)
			}
		}
		return p, nil
	}
}

func joinList(list string, value []byte) string {
	if list == "" {
		return string(value)
	}
	return list + "," + string(value)
}

// parseStatus reads the status of a status line.
func parseStatus(block []byte) (int, bool) {
	line, _, _ := bytes.Cut(block[:min(len(block), 200)], []byte{'\n'})
	protocol, rest, _ := bytes.Cut(line, []byte{' '})
	if !bytes.HasPrefix(protocol, []byte("HTTP")) && !bytes.Equal(protocol, []byte("ICY")) {
		return 0, false
	}
	digits, _, _ := bytes.Cut(bytes.TrimSpace(rest), []byte{' '})
	if len(digits) != 3 || digits[0] == '0' || !isDigit(digits[0]) || !isDigit(digits[1]) || !isDigit(digits[2]) {
		return 0, false
	}
	return int(digits[0]-'0')*100 + int(digits[1]-'0')*10 + int(digits[2]-'0'), true
}

// cutHeader parts a message at its first empty line.
func cutHeader(block []byte) (header, body []byte) {
	for off := 0; ; {
		end := bytes.IndexByte(block[off:], '\n')
		if end < 0 {
			return block, nil
		}
		if end == 0 || end == 1 && block[off] == '\r' {
			return block[:off], block[off+end+1:]
		}
		off += end + 1
	}
}
