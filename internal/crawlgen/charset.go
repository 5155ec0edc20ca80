package crawlgen

import (
	"fmt"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/simplifiedchinese"
)

// encodingOf returns the encoder of a character set, nil for UTF-8.
func encodingOf(charset string) (encoding.Encoding, error) {
	switch charset {
	case "", "utf-8":
		return nil, nil
	case "windows-1251":
		return charmap.Windows1251, nil
	case "windows-1256":
		return charmap.Windows1256, nil
	case "gb18030":
		return simplifiedchinese.GB18030, nil
	}
	return nil, fmt.Errorf("crawlgen: no encoder for character set %q", charset)
}
