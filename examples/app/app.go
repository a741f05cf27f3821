// SPDX-License-Identifier: Apache-2.0

// Package app knows what the applications under examples/ consist of: it reads their services.yaml, and says how each process is
// started. It has what their loads share, too.
package app

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// App is an application.
type App struct {
	// Name is that of its folder.
	Name string `json:"-"`
	// Dir is its folder, an absolute path.
	Dir string `json:"-"`
	// Services in the order of the file. The first is what users ask.
	Services []Service `json:"services"`
}

// Service is one or several processes that do the same.
type Service struct {
	Name string `json:"name"`
	// Address is where others ask it. None means that it has one instance and that everybody asks that one, as with a database.
	Address netip.AddrPort `json:"address"`
	// Run is the command, with ${APP}, ${BUILD}, ${DATA} and the variables of Env in it.
	Run []string `json:"run"`
	// Asks names the services that it asks.
	Asks []string `json:"asks"`
	// Env is added to the environment of its processes.
	Env       map[string]string `json:"env"`
	Instances []Instance        `json:"instances"`
}

// Instance is a process.
type Instance struct {
	Listen netip.AddrPort    `json:"listen"`
	Env    map[string]string `json:"env"`
}

// Process is what is started for an instance.
type Process struct {
	// Name is the service's, with a number from 1 on where there are several.
	Name string
	// Path is absolute.
	Path string
	Args []string
	// Env replaces the environment.
	Env    []string
	Listen netip.AddrPort
	// HTTP: it answers "/health" when it is ready. Others are ready when they accept connections.
	HTTP bool
}

// File is the configuration that XLB and Envoy read.
func (a App) File() string { return filepath.Join(a.Dir, "envoy.yaml") }

// Admin is the address of the balancer's admin API, as the configuration says.
func (a App) Admin() (netip.AddrPort, error) {
	text, err := os.ReadFile(a.File())
	if err != nil {
		return netip.AddrPort{}, err
	}
	var bootstrap struct {
		Admin struct {
			Address struct {
				Socket struct {
					Address string `json:"address"`
					Port    uint16 `json:"port_value"`
				} `json:"socket_address"`
			} `json:"address"`
		} `json:"admin"`
	}
	if err := yaml.Unmarshal(text, &bootstrap); err != nil {
		return netip.AddrPort{}, fmt.Errorf("%s: %w", a.File(), err)
	}
	socket := bootstrap.Admin.Address.Socket
	addr, err := netip.ParseAddr(socket.Address)
	return netip.AddrPortFrom(addr, socket.Port), err
}

// Load reads the application in a folder.
func Load(dir string) (App, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return App{}, err
	}
	a := App{Name: filepath.Base(dir), Dir: dir}
	file := filepath.Join(dir, "services.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		return App{}, err
	}
	if err := yaml.UnmarshalStrict(text, &a); err != nil {
		return App{}, fmt.Errorf("%s: %w", file, err)
	}
	if err := a.validate(); err != nil {
		return App{}, fmt.Errorf("%s: %w", file, err)
	}
	return a, nil
}

func (a App) validate() error {
	if len(a.Services) == 0 || !a.Services[0].Address.IsValid() {
		return errors.New("the first service must have an address: it is what users ask")
	}
	for _, s := range a.Services {
		if len(s.Run) == 0 || len(s.Instances) == 0 {
			return fmt.Errorf("service %s: needs \"run\" and \"instances\"", s.Name)
		}
		if !s.Address.IsValid() && len(s.Instances) > 1 {
			return fmt.Errorf("service %s: has several instances, so it needs an address", s.Name)
		}
		for _, asked := range s.Asks {
			if !slices.ContainsFunc(a.Services, func(other Service) bool { return other.Name == asked }) {
				return fmt.Errorf("service %s: asks %s, which there is not", s.Name, asked)
			}
		}
	}
	return nil
}

// Build runs the application's script "build", which puts what it makes into out.
func (a App) Build(ctx context.Context, out string) error {
	build := exec.CommandContext(ctx, filepath.Join(a.Dir, "build"), out)
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w: %s", a.Name, err, strings.TrimSpace(string(output)))
	}
	return nil
}

// Targets are what users ask: the first service's address, or its instances when nobody balances.
func (a App) Targets(direct bool) []netip.AddrPort {
	entry := a.Services[0]
	if !direct {
		return []netip.AddrPort{entry.Address}
	}
	return entry.endpoints()
}

// Endpoints are the instances of all services that have an address.
func (a App) Endpoints() []netip.AddrPort {
	var all []netip.AddrPort
	for _, s := range a.Services {
		if s.Address.IsValid() {
			all = append(all, s.endpoints()...)
		}
	}
	return all
}

func (s Service) endpoints() []netip.AddrPort {
	var list []netip.AddrPort
	for _, instance := range s.Instances {
		list = append(list, instance.Listen)
	}
	return list
}

// Processes lists what to start, in this order: those first that speak no HTTP. Processes find compiled things in build and put
// theirs into data. With direct they ask each other without a balancer.
func (a App) Processes(build, data string, direct bool) ([]Process, error) {
	var first, then []Process
	for _, s := range a.Services {
		for i, instance := range s.Instances {
			p, err := a.process(s, i, instance, map[string]string{"APP": a.Dir, "BUILD": build, "DATA": data}, direct)
			if err != nil {
				return nil, fmt.Errorf("service %s: %w", s.Name, err)
			}
			if p.HTTP {
				then = append(then, p)
			} else {
				first = append(first, p)
			}
		}
	}
	return slices.Concat(first, then), nil
}

func (a App) process(s Service, i int, instance Instance, variables map[string]string, direct bool) (Process, error) {
	p := Process{Name: s.Name, Listen: instance.Listen, HTTP: s.Address.IsValid()}
	if len(s.Instances) > 1 {
		p.Name = fmt.Sprintf("%s-%d", s.Name, i+1)
	}
	expand := func(text string) string { return os.Expand(text, func(name string) string { return variables[name] }) }
	// No proxy of this machine's user is asked for the way to a service.
	p.Env = []string{"PATH=" + os.Getenv("PATH"), "LISTEN=" + instance.Listen.String()}
	for _, env := range []map[string]string{s.Env, instance.Env} {
		for name, value := range env {
			p.Env = append(p.Env, name+"="+expand(value))
		}
	}
	for _, other := range a.Services {
		if slices.Contains(s.Asks, other.Name) {
			p.Env = append(p.Env, strings.ToUpper(other.Name)+"_ADDR="+other.asked(i, direct).String())
		}
	}
	slices.Sort(p.Env)
	path, err := exec.LookPath(expand(s.Run[0]))
	if err != nil {
		return p, fmt.Errorf("%w: scripts/install-deps examples installs what there is to install", err)
	}
	p.Path = path
	for _, arg := range s.Run[1:] {
		p.Args = append(p.Args, expand(arg))
	}
	return p, nil
}

// asked is the address that the i-th instance of another service knows.
func (s Service) asked(i int, direct bool) netip.AddrPort {
	if s.Address.IsValid() && !direct {
		return s.Address
	}
	return s.Instances[i%len(s.Instances)].Listen
}
