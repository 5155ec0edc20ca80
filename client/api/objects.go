package api

import (
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/neardup/neardup/fingerprint"
)

// JSONLines is the media type of a body with one JSON object per line.
const JSONLines = "application/x-ndjson"

// Document is one document of a request: a page as html, text, content or body, or a fingerprint.
type Document struct {
	Key      string `json:"key,omitempty" doc:"URL or other name of the document"`
	KeyBytes []byte `json:"keyBytes,omitempty" doc:"key that is not UTF-8"`
	URL      string `json:"url,omitempty" doc:"same as key"`
	ID       Name   `json:"id,omitempty" doc:"same as key; a number stands for its digits"`

	HTML        *string `json:"html,omitempty" doc:"HTML page"`
	Text        *string `json:"text,omitempty" doc:"plain text"`
	Content     *string `json:"content,omitempty" doc:"HTML or plain text; contentType, kind or the content itself decides"`
	Body        []byte  `json:"body,omitzero" doc:"page in any charset"`
	ContentType string  `json:"contentType,omitempty" doc:"value of the HTTP header, for content and body"`
	Kind        string  `json:"kind,omitempty" doc:"html or text, for content and body, if it is known"`

	Fingerprint *fingerprint.Fingerprint     `json:"fingerprint,omitempty" doc:"fingerprint of a page that is already analyzed"`
	Shingles    fingerprint.ShingleSignature `json:"shingles,omitzero" doc:"shingle signature"`
	Digest      fingerprint.Digest           `json:"digest,omitzero" doc:"hash of all words in order"`
	Tokens      int                          `json:"tokens,omitempty" doc:"length in words"`

	Scope      string `json:"scope,omitempty" doc:"only documents of one scope are compared"`
	ScopeBytes []byte `json:"scopeBytes,omitempty" doc:"scope that is not UTF-8"`

	MaxDistance *int `json:"maxDistance,omitempty" doc:"query only: largest distance in bits; default the k of the index"`
	Limit       int  `json:"limit,omitempty" doc:"query only: largest number of matches; default and maximum 10,000"`
}

// Name is a key. In JSON it may be a number; the key is then the digits of the number.
type Name string

// UnmarshalJSON reads a string or a number.
func (n *Name) UnmarshalJSON(raw []byte) error {
	switch value := jsontext.Value(raw); value.Kind() {
	case '"':
		text, err := jsontext.AppendUnquote(nil, value)
		*n = Name(text)
		return err
	case '0':
		*n = Name(raw)
	case 'n':
		*n = ""
	default:
		return errNotName
	}
	return nil
}

var errNotName = errors.New("want a string or a number")

// Stored is a stored document.
type Stored struct {
	Key         string                       `json:"key" doc:"URL or other name of the document"`
	KeyBytes    []byte                       `json:"keyBytes,omitempty" doc:"key that is not UTF-8"`
	Distance    int                          `json:"distance" doc:"bits in which the fingerprints differ; 0 for a document that was not searched for"`
	ID          uint64                       `json:"id,omitempty" doc:"number of the document; no other document ever gets it"`
	Fingerprint fingerprint.Fingerprint      `json:"fingerprint" doc:"fingerprint of the document"`
	Shingles    fingerprint.ShingleSignature `json:"shingles,omitzero" doc:"shingle signature"`
	Digest      fingerprint.Digest           `json:"digest,omitzero" doc:"hash of all words in order"`
	Tokens      int                          `json:"tokens,omitempty" doc:"length in words"`
	Scope       string                       `json:"scope,omitempty" doc:"scope of the document"`
	ScopeBytes  []byte                       `json:"scopeBytes,omitempty" doc:"scope that is not UTF-8"`
	Added       time.Time                    `json:"added,omitzero" doc:"time at which the document was last stored"`
}

// Checked is the answer of check for one document.
type Checked struct {
	Key         string                   `json:"key" doc:"key of the request"`
	KeyBytes    []byte                   `json:"keyBytes,omitempty" doc:"key that is not UTF-8"`
	Fingerprint *fingerprint.Fingerprint `json:"fingerprint,omitempty" doc:"fingerprint of the document; absent if it is skipped"`
	Verdict     Status                   `json:"verdict" doc:"new, duplicate, unchanged, changed or skipped"`
	Of          *Stored                  `json:"of,omitempty" doc:"nearest stored document of a duplicate; earlier version of an unchanged or changed document"`
	Near        bool                     `json:"near,omitempty" doc:"of is near enough for a duplicate"`
	Removed     bool                     `json:"removed,omitempty" doc:"duplicate only: the earlier version of the key was removed from the index"`
	Reason      string                   `json:"reason,omitempty" doc:"why the document is skipped"`
}

// Found is the answer of query for one document.
type Found struct {
	Key         string                   `json:"key" doc:"key of the request"`
	KeyBytes    []byte                   `json:"keyBytes,omitempty" doc:"key that is not UTF-8"`
	Fingerprint *fingerprint.Fingerprint `json:"fingerprint,omitempty" doc:"fingerprint of the document; absent if it is skipped"`
	Matches     []Stored                 `json:"matches" doc:"stored documents that match, by distance, then id"`
	More        bool                     `json:"more,omitempty" doc:"there are more than 10,000 matches"`
	Reason      string                   `json:"reason,omitempty" doc:"why the document is skipped"`
}

// List is one part of the list of all documents.
type List struct {
	Documents []Stored `json:"documents" doc:"documents in the order of their ids"`
	Next      string   `json:"next,omitempty" doc:"value of after for the next part; absent in the last part"`
}

// Deletion selects the documents that a request deletes.
type Deletion struct {
	Keys     []string `json:"keys,omitempty" doc:"keys of documents"`
	KeyBytes [][]byte `json:"keyBytes,omitempty" doc:"keys that are not UTF-8"`
	IDs      []uint64 `json:"ids,omitempty" doc:"ids of documents"`
}

// Deleted is the answer to a deletion.
type Deleted struct {
	Deleted int `json:"deleted" doc:"number of removed documents"`
}

// Failure is the answer to a request that failed, or to one document of a request.
type Failure struct {
	Error Error `json:"error" doc:"what failed"`
}

// Error is the JSON form of an error.
type Error struct {
	Code    string `json:"code" doc:"name of the error; see Errors"`
	Message string `json:"message" doc:"text for people, which may change between versions"`
	Line    int    `json:"line,omitempty" doc:"number of the malformed line, from 1"`
}
