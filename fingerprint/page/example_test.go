package page_test

import (
	"fmt"
	"log"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/fingerprint/page"
)

// A Signer decodes a page, extracts its text, and computes the signature of the text.
func ExampleSigner_Sign() {
	signer, err := page.NewSigner(page.Main, fingerprint.Options{})
	if err != nil {
		log.Fatal(err)
	}
	html := []byte(
		"<nav><a href=/>Home</a></nav><p>The ferry leaves at nine, at noon and at five.</p>")
	s, err := signer.Sign("text/html; charset=utf-8", html)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Tokens)
	// Output: 10
}
