// SPDX-License-Identifier: Apache-2.0

package stand

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Resets that crossed the router.
type Resets struct {
	// Harmful are all others than late ones.
	Harmful int64
	// Late are answers to a second acknowledgement of the sender's own end (RFC 9293, 3.10.7.1: CLOSED). Any TCP sends them: when its last segments
	// overtake each other, or its FIN is sent twice, TIME_WAIT acknowledges twice, and the second time nobody is there. Both acknowledgements came
	// from the address that the sender is connected with.
	Late int64
	// First says which the first harmful ones were.
	First []string
}

const (
	flagFIN, flagSYN, flagRST, flagACK = 0x01, 0x02, 0x04, 0x10
	// endsBuffer holds what some ten thousand connections send without payload and nobody has read yet, in bytes; endsHead of each segment is kept.
	endsBuffer, endsHead = 256 << 20, 128
	// smallSegment is a TCP header with all its options, in bytes.
	smallSegment = 60
	// maxResets bounds how many are told one by one.
	maxResets = 5
)

// way is where a segment came from and goes to.
type way [2]netip.AddrPort

// acknowledged is the last acknowledgement on a way, and how many segments without much payload have carried it.
type acknowledged struct {
	number uint32
	times  int
}

// watcher keeps segments that end connections until somebody asks.
type watcher struct {
	fd int
	// ends are the sequence numbers behind each sender's FIN, ended where the FIN went to.
	ends  map[way]uint32
	ended map[netip.AddrPort]netip.AddrPort
	// asked is where each client's SYN went to.
	asked  map[netip.AddrPort]netip.AddrPort
	acks   map[way]acknowledged
	resets Resets
}

// endings passes what leaves an interface and is TCP with FIN or RST, or small, over IPv4 or IPv6.
var endings = []unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0xfffff004}, // the packet's type
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 18, K: unix.PACKET_OUTGOING},
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: 0},
	{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xf0},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 7, K: 0x40},
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: 9},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 13, K: unix.IPPROTO_TCP},
	{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: 2},
	{Code: unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K, Jf: 10, K: 20 + smallSegment},
	{Code: unix.BPF_LDX | unix.BPF_B | unix.BPF_MSH, K: 0},
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_IND, K: 13},
	{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, Jt: 7, Jf: 8, K: flagFIN | flagRST},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 7, K: 0x60},
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: 6},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 5, K: unix.IPPROTO_TCP},
	{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: 4},
	{Code: unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K, Jf: 2, K: smallSegment},
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: 40 + 13},
	{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, Jf: 1, K: flagFIN | flagRST},
	{Code: unix.BPF_RET | unix.BPF_K, K: endsHead},
	{Code: unix.BPF_RET | unix.BPF_K, K: 0},
}

func newWatcher(h *Host) (*watcher, error) {
	w := &watcher{
		fd: -1, ends: map[way]uint32{}, acks: map[way]acknowledged{},
		ended: map[netip.AddrPort]netip.AddrPort{}, asked: map[netip.AddrPort]netip.AddrPort{},
	}
	err := h.Do(func() (err error) {
		// Without a protocol nothing comes before the filter is there.
		if w.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
			return err
		}
		filter := unix.SockFprog{Len: uint16(len(endings)), Filter: &endings[0]}
		const all = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8
		return errors.Join(
			unix.SetsockoptSockFprog(w.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &filter),
			unix.SetsockoptInt(w.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, endsBuffer),
			unix.Bind(w.fd, &unix.SockaddrLinklayer{Protocol: all}))
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("watch resets on %s: %w", h.Name, err), w.close())
	}
	return w, nil
}

func (w *watcher) close() error {
	if w == nil || w.fd < 0 {
		return nil
	}
	fd := w.fd
	w.fd = -1
	return unix.Close(fd)
}

// read takes in what has come, and fails if something was lost.
func (w *watcher) read() (Resets, error) {
	buffer := make([]byte, endsHead)
	for {
		n, _, err := unix.Recvfrom(w.fd, buffer, 0)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return w.resets, w.lost()
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return w.resets, err
		default:
			w.take(buffer[:n])
		}
	}
}

func (w *watcher) lost() error {
	var s unix.TpacketStats
	size := uint32(unsafe.Sizeof(s))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(w.fd), unix.SOL_PACKET, unix.PACKET_STATISTICS, uintptr(unsafe.Pointer(&s)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return errno
	}
	if s.Drops != 0 {
		return fmt.Errorf("%d segments that end connections were not seen", s.Drops)
	}
	return nil
}

// take looks at one segment.
func (w *watcher) take(p []byte) {
	from, to, tcp, length := segmentOf(p)
	if len(tcp) < 20 {
		return
	}
	on := way{
		netip.AddrPortFrom(from, binary.BigEndian.Uint16(tcp)),
		netip.AddrPortFrom(to, binary.BigEndian.Uint16(tcp[2:])),
	}
	flags, seq := tcp[13], binary.BigEndian.Uint32(tcp[4:])
	switch {
	case flags&flagRST != 0:
		w.reset(on, flags, seq)
		return
	case flags&(flagSYN|flagACK) == flagSYN:
		w.asked[on[0]] = on[1]
		return
	case flags&flagFIN != 0:
		w.ends[on] = seq + uint32(length-int(tcp[12]>>4)*4) + 1
		w.ended[on[0]] = on[1]
	}
	a := w.acks[on]
	if number := binary.BigEndian.Uint32(tcp[8:]); number != a.number {
		a = acknowledged{number: number}
	}
	a.times++
	w.acks[on] = a
}

// reset counts one.
func (w *watcher) reset(on way, flags byte, seq uint32) {
	end, ended := w.ends[on]
	if ended && end == seq && w.twice(on, end) {
		w.resets.Late++
		return
	}
	w.resets.Harmful++
	if len(w.resets.First) >= maxResets {
		return
	}
	what := "before it had ended"
	if ended {
		what = fmt.Sprintf("%d behind its end", int32(seq-end))
	}
	w.resets.First = append(w.resets.First, fmt.Sprintf("%s to %s, flags %#x, %s", on[0], on[1], flags, what))
}

// twice tells whether the end of who sends on a way was acknowledged more than once to the address that it has for itself. A client's answers come from
// where it sent its SYN to, whatever the address that its own segments go to now; a server gets them where the client's FIN went to.
func (w *watcher) twice(on way, end uint32) bool {
	back := way{on[1], w.ended[on[1]]}
	if vip, isClient := w.asked[on[0]]; isClient {
		back = way{vip, on[0]}
	}
	a := w.acks[back]
	return a.number == end && a.times > 1
}

// segmentOf returns the TCP header of an IP packet that may be cut off, and the segment's length in bytes.
func segmentOf(p []byte) (from, to netip.Addr, tcp []byte, length int) {
	if len(p) >= 40 && p[0]>>4 == 6 {
		return netip.AddrFrom16([16]byte(p[8:24])), netip.AddrFrom16([16]byte(p[24:40])), p[40:], int(binary.BigEndian.Uint16(p[4:]))
	}
	if len(p) < 20 {
		return from, to, nil, 0
	}
	head := min(int(p[0]&0xf)*4, len(p))
	return netip.AddrFrom4([4]byte(p[12:16])), netip.AddrFrom4([4]byte(p[16:20])), p[head:], int(binary.BigEndian.Uint16(p[2:])) - head
}

// WatchResets has the router note the ends of connections from now on.
func (s *Stand) WatchResets() (err error) {
	s.watcher, err = newWatcher(s.Router)
	return err
}

// Resets are those that have crossed the router since WatchResets.
func (s *Stand) Resets() (Resets, error) { return s.watcher.read() }
