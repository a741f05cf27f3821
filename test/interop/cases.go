// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Names of the cases, as clients read them.
const (
	get100      = "get100"
	down        = "down"
	up          = "up"
	chunkedDown = "chunked-down"
	chunkedUp   = "chunked-up"
	trailerDown = "trailer-down"
	trailerUp   = "trailer-up"
	head        = "head"
	notModified = "not-modified"
	expect      = "expect"
	concurrent  = "concurrent"
)

// trailerValue is that of the trailer X-Check in both directions.
const trailerValue = "interop"

// testCase is what a client does and what must come of it.
type testCase struct {
	name, what string
	// statuses of the final responses and how often each comes.
	statuses map[string]int
	// download names the files whose contents the client receives, in order.
	download []string
	// upload names the file that the server must have kept under the case's name.
	upload string
}

var testCases = []testCase{
	{
		name: get100, what: "100 kept-alive GETs on one connection",
		statuses: map[string]int{"200": 100}, download: smallFiles(100),
	},
	{name: down, what: "5 MB down, Content-Length", statuses: map[string]int{"200": 1}, download: []string{"large"}},
	{name: up, what: "5 MB up, Content-Length", statuses: map[string]int{"2xx": 1}, upload: "large"},
	{name: chunkedDown, what: "1 MB down, chunked", statuses: map[string]int{"200": 1}, download: []string{"chunked"}},
	{name: chunkedUp, what: "1 MB up, chunked", statuses: map[string]int{"2xx": 1}, upload: "chunked"},
	{name: trailerDown, what: "the same, asked with TE: trailers", statuses: map[string]int{"200": 1}, download: []string{"chunked"}},
	{name: trailerUp, what: "the same, with a trailer", statuses: map[string]int{"2xx": 1}, upload: "chunked"},
	{
		name: head, what: "HEAD of 5 MB, then a GET",
		statuses: map[string]int{"200": 2}, download: smallFiles(1),
	},
	{
		name: notModified, what: "GET, the same with If-None-Match, GET",
		statuses: map[string]int{"200": 2, "304": 1}, download: append(smallFiles(1), smallFiles(1)...),
	},
	{name: expect, what: "1 MB up with Expect: 100-continue", statuses: map[string]int{"2xx": 1}, upload: "chunked"},
	{
		name: concurrent, what: "8 clients, 25 GETs each",
		statuses: map[string]int{"200": 200}, download: repeat(8, smallFiles(25)),
	},
}

// smallFiles names the first n.
func smallFiles(n int) []string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("small/%02d", i))
	}
	return names
}

func repeat(n int, names []string) (all []string) {
	for range n {
		all = append(all, names...)
	}
	return all
}

// answer is what a client says about one case.
type answer struct {
	// Statuses counts final responses by status.
	Statuses map[string]int `json:"statuses"`
	// SHA256 of all bodies received, one after another in the order of the
	// requests; of concurrent clients, one client after another.
	SHA256 string `json:"sha256"`
	// Bytes of bodies received and found right, from clients that show no content.
	Bytes int64 `json:"bytes"`
	// Length is the Content-Length in the answer to HEAD.
	Length int64 `json:"length"`
	// Trailer is the value of the trailer X-Check.
	Trailer string `json:"trailer"`
	// Continued tells that 100 Continue came.
	Continued bool   `json:"continued"`
	Error     string `json:"error"`
}

// judge returns what is wrong with a client's answer.
func (c testCase) judge(client, server string, got answer, f files) error {
	if got.Error != "" {
		return errors.New(got.Error)
	}
	return errors.Join(
		c.judgeStatuses(got.Statuses),
		c.judgeDownload(client, got, f),
		c.judgeUpload(f),
		c.judgeTrailer(client, server, got, f),
		c.judgeRest(client, got))
}

// judgeConnections looks at how many connections the client has made.
func (c testCase) judgeConnections(client string, made int) error {
	want := 1
	if slices.Contains(triesAddress, client) {
		want = 2
	}
	if c.name == get100 && made != want {
		return fmt.Errorf("connections: got %d, want %d", made, want)
	}
	return nil
}

func (c testCase) judgeStatuses(got map[string]int) error {
	counts := map[string]int{}
	for status, n := range got {
		if _, byClass := c.statuses["2xx"]; byClass && strings.HasPrefix(status, "2") {
			status = "2xx"
		}
		counts[status] += n
	}
	if fmt.Sprint(counts) != fmt.Sprint(c.statuses) {
		return fmt.Errorf("statuses: got %v, want %v", counts, c.statuses)
	}
	return nil
}

func (c testCase) judgeDownload(client string, got answer, f files) error {
	if c.download == nil {
		return nil
	}
	size, digest, err := f.concatenated(c.download)
	if err != nil {
		return err
	}
	if slices.Contains(comparesLengths, client) && got.SHA256 == "" {
		return f.judgeBytes(c.download, got.Bytes, size)
	}
	if got.SHA256 != digest {
		return fmt.Errorf("bodies received: got SHA-256 %s, want %s", got.SHA256, digest)
	}
	return nil
}

// judgeBytes allows for tools that ask for one and the same file each time.
func (f files) judgeBytes(download []string, got, want int64) error {
	first, _, err := f.concatenated(download[:1])
	if err != nil {
		return err
	}
	if same := first * int64(len(download)); got != want && got != same {
		return fmt.Errorf("bytes received: got %d, want %d of the same file or %d of all", got, same, want)
	}
	return nil
}

func (c testCase) judgeUpload(f files) error {
	if c.upload == "" {
		return nil
	}
	want, err := digestOf(filepath.Join(f.served, c.upload))
	if err != nil {
		return err
	}
	got, err := digestOf(filepath.Join(f.store, c.name))
	if err != nil {
		return fmt.Errorf("upload: %w", err)
	}
	if got != want {
		return fmt.Errorf("upload: the server has SHA-256 %s, want %s", got, want)
	}
	return nil
}

// judgeRest looks at what only some cases have.
func (c testCase) judgeRest(client string, got answer) error {
	switch {
	case c.name == head && !slices.Contains(comparesLengths, client) && got.Length != largeSize:
		return fmt.Errorf("Content-Length of HEAD: got %d, want %d", got.Length, largeSize)
	case c.name == expect && slices.Contains(sees100, client) && !got.Continued:
		return errors.New("100 Continue did not come")
	}
	return nil
}

// judgeTrailer wants trailers wherever both sides can.
func (c testCase) judgeTrailer(client, server string, got answer, f files) error {
	unasked := c.name == chunkedDown && cannot(client, server, trailerDown) == "" && slices.Contains(sendsTrailersUnasked, server)
	switch {
	case c.name == trailerUp:
		return f.judgeTrailer(c.name)
	case (unasked || c.name == trailerDown) && got.Trailer != trailerValue:
		return fmt.Errorf("trailer X-Check of the response: got %q, want %q", got.Trailer, trailerValue)
	}
	return nil
}

func (f files) judgeTrailer(name string) error {
	kept, err := os.ReadFile(filepath.Join(f.store, name+".trailer"))
	if err != nil {
		return fmt.Errorf("trailer X-Check of the request: %w", err)
	}
	if string(kept) != trailerValue {
		return fmt.Errorf("trailer X-Check of the request: got %q, want %q", kept, trailerValue)
	}
	return nil
}

// digestOf returns the SHA-256 of a file in hexadecimal.
func digestOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	digest := sha256.New()
	if _, err := io.Copy(digest, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(digest.Sum(nil)), nil
}
