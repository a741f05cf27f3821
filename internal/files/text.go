// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bytes"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"strings"
)

// errText does not quote the name: it may be a private key.
var errText = errors.New("what is written for the name of a file is the text itself; write it as inline_string, or name the file")

// Limits of Linux for a path and for each name in it, in bytes.
const (
	maxPath = 4095
	maxName = 255
)

// IsText reports whether a name is by its look no name but a text that somebody has written in its place, such as a key: in PEM, in base64, or longer
// than a name can be. Whoever would quote the name of a file that cannot be read asks before.
func IsText(name string) bool {
	if len(name) > maxPath || strings.ContainsAny(name, "\n\r\x00") || strings.Contains(name, "-----") {
		return true
	}
	for part := range strings.SplitSeq(name, "/") {
		if len(part) > maxName {
			return true
		}
	}
	return isEncoded(name)
}

// shortestKey is of which length base64 is taken for a key, in characters: one of 128 bits in DER is longer.
const shortestKey = 32

// isEncoded reports base64 of DER, which begins with a sequence, or of PEM.
func isEncoded(name string) bool {
	name = strings.TrimRight(name, "=")
	if len(name) < shortestKey {
		return false
	}
	text, err := base64.RawStdEncoding.DecodeString(name[:len(name)&^3])
	return err == nil && (text[0] == 0x30 || strings.HasPrefix(string(text), "-----"))
}

// errCut does not quote the text: it may be a private key.
var errCut = errors.New("ends within a block of PEM, as a file that is being written does; write it to its end")

// CheckPEM returns an error for text that ends within a block of PEM: whoever reads block by block takes what is before, a bundle or chain without its
// end. Envoy refuses it as well.
func CheckPEM(text []byte) error {
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			break
		}
		text = rest
	}
	if bytes.Contains(text, []byte("-----BEGIN ")) {
		return errCut
	}
	return nil
}
