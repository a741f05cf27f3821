// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/xlb-project/xlb/internal/files"
	"github.com/xlb-project/xlb/internal/heels/kernel"
)

// Key is one of HalfSipHash, in the words that the kernel programs use.
type Key = [2]uint32

// ReadKeys reads a file with a key of 16 hexadecimal digits on each line. The first signs, all are accepted. Empty lines and those that begin with
// # are passed over.
func ReadKeys(path string) ([]Key, error) {
	data, err := files.Read(path, maxSize)
	if err != nil {
		return nil, fmt.Errorf("option.key.file: %w", err)
	}
	var keys []Key
	for i, line := range strings.Split(string(data), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		b, err := hex.DecodeString(line)
		// The line itself is a secret.
		if err != nil || len(b) != 8 {
			return nil, fmt.Errorf("option.key.file: %s line %d: want 16 hexadecimal digits", path, i+1)
		}
		keys = append(keys, Key{kernel.Word(b), kernel.Word(b[4:])})
	}
	if len(keys) == 0 || len(keys) > kernel.MaxKeys {
		return nil, fmt.Errorf("option.key.file: %s has %d keys: want 1, or 2 while they are exchanged", path, len(keys))
	}
	return keys, nil
}
