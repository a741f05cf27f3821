// SPDX-License-Identifier: Apache-2.0

package balancer

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/cilium/ebpf"
)

// KatranSource is the environment variable that names a checkout of Katran.
const KatranSource = "XLB_KATRAN_SRC"

// katranSizes are what Katran's program is compiled with instead of its own defaults, which take some hundred megabytes: how many VIPs and server
// ids it has room for.
var katranSizes = []string{"-DMAX_VIPS=64", "-DMAX_QUIC_REALS=1024"}

const (
	katranRing    = 65537
	katranProgram = "balancer_ingress"
	// katranConnections is how many connections it remembers for each processor.
	katranConnections = 100_000
	protocolTCP       = 6
)

// katran is the real one.
type katran struct {
	*ebpf.Collection
}

// Katran compiles the XDP program of a checkout of Katran, with Debian's clang, and loads it in place of our own. Nothing of it is kept, and only
// IPIP with IPv4 is done. Packets go to the next hop with the hardware address gateway.
func Katran(source string, gateway net.HardwareAddr) (*Balancer, error) {
	dir, err := os.MkdirTemp("", "xlb-katran-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	object, err := compileKatran(source, dir)
	if err != nil {
		return nil, err
	}
	b, err := New()
	if err != nil {
		return nil, err
	}
	if b.katran, err = loadKatran(object, gateway); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// compileKatran writes an object file into dir.
func compileKatran(source, dir string) (string, error) {
	program := filepath.Join(source, "katran", "lib", "bpf", "balancer.bpf.c")
	if _, err := os.Stat(program); err != nil {
		return "", fmt.Errorf("%w: %s is to name a checkout of Katran", err, KatranSource)
	}
	// Headers of the C library ask for this one where the compiler's target is no 64-bit machine that they know.
	stubs := filepath.Join(dir, "gnu", "stubs-32.h")
	if err := errors.Join(os.Mkdir(filepath.Dir(stubs), 0o755), os.WriteFile(stubs, nil, 0o644)); err != nil {
		return "", err
	}
	object := filepath.Join(dir, "katran.o")
	args := append([]string{
		"-O2", "-g", "-target", "bpf", "-mcpu=v3", "-D__KERNEL__", "-Wno-everything", "-I", source,
		"-idirafter", "/usr/include/" + machine() + "-linux-gnu", "-idirafter", dir, "-c", program, "-o", object,
	}, katranSizes...)
	out, err := exec.Command("clang-19", args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("compile %s: %w: %s", program, err, strings.TrimSpace(string(out)))
	}
	return object, nil
}

// machine is this one's name in Debian's paths.
func machine() string {
	if runtime.GOARCH == "arm64" {
		return "aarch64"
	}
	return "x86_64"
}

// katranControl is the first entry of Katran's ctl_array.
type katranControl struct {
	MAC [6]byte
	_   [2]byte
}

func loadKatran(object string, gateway net.HardwareAddr) (*katran, error) {
	spec, err := ebpf.LoadCollectionSpec(object)
	if err != nil {
		return nil, fmt.Errorf("read Katran's program: %w", err)
	}
	all, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, fmt.Errorf("load Katran: %w", err)
	}
	k := &katran{all}
	control := katranControl{}
	copy(control.MAC[:], gateway)
	err = errors.Join(k.Maps["ctl_array"].Put(uint32(0), control), k.remember(spec))
	if err != nil {
		k.Close()
		return nil, err
	}
	return k, nil
}

// remember gives each processor its table of connections.
func (k *katran) remember(spec *ebpf.CollectionSpec) error {
	processors, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	for i := range processors {
		table := spec.Maps["lru_mapping"].InnerMap.Copy()
		table.MaxEntries = katranConnections
		m, err := ebpf.NewMap(table)
		if err != nil {
			return fmt.Errorf("make Katran's table of connections: %w", err)
		}
		err = k.Maps["lru_mapping"].Put(uint32(i), m)
		if err := errors.Join(err, m.Close()); err != nil {
			return err
		}
	}
	return nil
}

// katranVIP is a key of vip_map, katranMeta its value, and katranReal a value of reals.
type (
	katranVIP struct {
		Address  [16]byte
		Port     uint16 // in network order
		Protocol uint8
		_        uint8
	}
	katranMeta struct{ Flags, Number uint32 }
	katranReal struct {
		Address [16]byte
		Flags   uint8
		_       [3]uint8
	}
)

// set fills Katran's maps. Its first server has the number 1: 0 means none.
func (k *katran) set(s Service, index uint32, numbers, places []uint32) error {
	if !s.VIP.Addr().Is4() || s.Encapsulation != IPIP {
		return errors.New("with Katran only IPIP for IPv4 is tested")
	}
	for i, server := range s.up() {
		if err := k.Maps["reals"].Put(numbers[i]+1, katranReal{Address: bytesOf(server.Address)}); err != nil {
			return err
		}
	}
	keys, values := make([]uint32, katranRing), make([]uint32, katranRing)
	for i := range keys {
		keys[i] = index*katranRing + uint32(i)
		if len(places) > 0 {
			values[i] = numbers[places[i]] + 1
		}
	}
	if _, err := k.Maps["ch_rings"].BatchUpdate(keys, values, nil); err != nil {
		return fmt.Errorf("fill the ring of %s: %w", s.VIP, err)
	}
	key := katranVIP{Address: bytesOf(s.VIP.Addr()), Port: networkOrder(s.VIP.Port()), Protocol: protocolTCP}
	return k.Maps["vip_map"].Put(key, katranMeta{Number: index})
}
