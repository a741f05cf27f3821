// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
)

// TorrentSpec describes clients that send as many requests as are taken, without looking at the answers:
// it costs them little, and who serves them much.
type TorrentSpec struct {
	Address string
	Path    string
	// Connections, and how many requests go in one write.
	Connections, Batch int
}

// TorrentReport is the first answer (empty, all are connected), and the last one, when the input has ended.
type TorrentReport struct {
	// Bytes of answers.
	Bytes int64
}

func runTorrent(s *stdio) error {
	var spec TorrentSpec
	if err := s.spec(&spec); err != nil {
		return err
	}
	batch := strings.Repeat(Ask{Path: spec.Path}.head(), spec.Batch)
	var conns []net.Conn
	for range spec.Connections {
		c, err := net.Dial("tcp", spec.Address)
		if err != nil {
			return err
		}
		conns = append(conns, c)
	}
	if err := s.answer(TorrentReport{}); err != nil {
		return err
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var report TorrentReport
	for _, c := range conns {
		all.Go(func() {
			for {
				if _, err := io.WriteString(c, batch); err != nil {
					return
				}
			}
		})
		all.Go(func() {
			// Its end is that of the program.
			n, _ := io.Copy(io.Discard, struct{ io.Reader }{c})
			mu.Lock()
			defer mu.Unlock()
			report.Bytes += n
		})
	}
	for {
		if _, err := s.command(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
	}
	for _, c := range conns {
		c.Close()
	}
	all.Wait()
	return s.answer(report)
}
