package page

import "github.com/neardup/neardup/fingerprint"

// Signature is the signature of the text that Extract finds.
func Signature(a *fingerprint.Analyzer, body []byte, contentType string, opts Options) (fingerprint.Signature, error) {
	p, err := Extract(body, contentType, opts)
	if err != nil {
		return fingerprint.Signature{}, err
	}
	return a.Text(p.Text), nil
}
