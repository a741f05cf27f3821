// SPDX-License-Identifier: Apache-2.0

package limits_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/limits"
)

const root = "../.."

// openers are what opens a socket to a peer, or is a server or client over one, by package.
var openers = map[string][]string{
	"net": {
		"Dial", "DialIP", "DialTCP", "DialTimeout", "DialUDP", "DialUnix", "Dialer", "Listen", "ListenConfig", "ListenIP", "ListenPacket", "ListenTCP",
		"ListenUDP", "ListenUnix", "ListenUnixgram", "LookupAddr", "LookupCNAME", "LookupHost", "LookupIP", "LookupTXT", "Resolver", "DefaultResolver",
	},
	"net/http": {
		"Client", "DefaultClient", "DefaultTransport", "Get", "Head", "ListenAndServe", "ListenAndServeTLS", "Post", "PostForm", "Serve", "ServeTLS", "Server",
		"Transport",
	},
	"crypto/tls":             {"Client", "Dial", "DialWithDialer", "Dialer", "Listen", "NewListener", "Server"},
	"google.golang.org/grpc": {"Dial", "DialContext", "NewClient", "NewServer"},
	"golang.org/x/sys/unix":  {"Accept", "Accept4", "Connect", "Listen"},
	"golang.org/x/net/http2": {"ConfigureServer", "ConfigureTransport", "Server", "Transport"},
}

// makers returns the functions of a file that open sockets, as folder.function.
func makers(folder string, file *ast.File) (found []string) {
	packages := map[string]string{}
	for _, spec := range file.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil || openers[name] == nil {
			continue
		}
		local := path.Base(name)
		if spec.Name != nil {
			local = spec.Name.Name
		}
		packages[local] = name
	}
	for _, d := range file.Decls {
		name := "init" // of a variable
		if f, ok := d.(*ast.FuncDecl); ok {
			name = f.Name.Name
		}
		// A pointer to a type, in a field or a parameter, is somebody else's.
		mentioned := map[ast.Node]bool{}
		ast.Inspect(d, func(n ast.Node) bool {
			if star, ok := n.(*ast.StarExpr); ok {
				mentioned[star.X] = true
			}
			return true
		})
		ast.Inspect(d, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok || mentioned[n] {
				return true
			}
			x, ok := s.X.(*ast.Ident)
			if ok && x.Obj == nil && slices.Contains(openers[packages[x.Name]], s.Sel.Name) {
				found = append(found, folder+"."+name)
			}
			return true
		})
	}
	return found
}

// sources calls f with each source file of the binary, and text with each test file of the tree.
func sources(t *testing.T, f func(folder string, file *ast.File, text string), test func(text string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		folder, _ := filepath.Rel(root, filepath.Dir(name))
		if entry.IsDir() && name != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		text, err := os.ReadFile(name)
		switch {
		case err != nil:
			return err
		case strings.HasSuffix(name, "_test.go"):
			test(string(text))
		case strings.HasPrefix(folder, "cmd/") || strings.HasPrefix(folder, "internal/") && !strings.HasSuffix(folder, "test"):
			file, err := parser.ParseFile(token.NewFileSet(), name, text, 0)
			if err != nil {
				return err
			}
			f(folder, file, string(text))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// No function opens a socket to a peer without a row that bounds it, no row names a function that does not, or a test that is not there, and each
// bound is one that the code takes from here.
func TestEverySocketHasARow(t *testing.T) {
	var code, tests strings.Builder
	var found []string
	sources(t, func(folder string, file *ast.File, text string) {
		found = append(found, makers(folder, file)...)
		if folder != "internal/limits" {
			code.WriteString(text)
		}
	}, func(text string) { tests.WriteString(text) })
	var named []string
	for _, r := range limits.All() {
		named = append(named, r.Made...)
		for _, name := range r.Shown {
			if !strings.Contains(tests.String(), "func "+name+"(t *testing.T)") {
				t.Errorf("%s: is said to be shown by %s, which is nowhere", r.Name, name)
			}
		}
		if len(r.Shown) == 0 && attacks[r] == nil && r.Trusted == "" {
			t.Errorf("%s: nothing attacks it", r.Name)
		}
		requireUsed(t, r, code.String())
	}
	for _, maker := range found {
		if !slices.Contains(named, maker) {
			t.Errorf("%s opens a socket and has no row; give it one in internal/limits, with an attack in its tests", maker)
		}
	}
	for _, maker := range named {
		if !slices.Contains(found, maker) {
			t.Errorf("a row names %s, which opens no socket", maker)
		}
	}
}

// requireUsed fails for a bound of a row that no code reads.
func requireUsed(t *testing.T, r *limits.Row, code string) {
	t.Helper()
	v := reflect.ValueOf(*r)
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if k := f.Type.Kind(); k != reflect.Int && k != reflect.Int64 || v.Field(i).IsZero() {
			continue
		}
		if !strings.Contains(code, "limits."+variable(r)+"."+f.Name) {
			t.Errorf("%s: nobody reads limits.%s.%s", r.Name, variable(r), f.Name)
		}
	}
}

// variable is the name of a row in the code.
func variable(r *limits.Row) string {
	for name, row := range map[string]*limits.Row{
		"Admin": &limits.Admin, "ClientStatus": &limits.ClientStatus, "ControlPlane": &limits.ControlPlane, "Secrets": &limits.Secrets,
		"HealthHTTP": &limits.HealthHTTP, "HealthTCP": &limits.HealthTCP, "DNS": &limits.DNS, "Downstream": &limits.Downstream, "Opening": &limits.Opening,
		"Upstream": &limits.Upstream, "Pool": &limits.Pool, "AdminClient": &limits.AdminClient, "Takeover": &limits.Takeover,
		"NRI": &limits.NRI, "Delegate": &limits.Delegate,
		"HeelsProbe": &limits.HeelsProbe, "Demo": &limits.Demo, "KernelProbe": &limits.KernelProbe,
	} {
		if row == r {
			return name
		}
	}
	return "none"
}

// The reader of sources sees what a file hides behind another name, and passes over types.
func TestMakersAreFound(t *testing.T) {
	const text = `package p
import (
	h "net/http"
	"net"
)
var client = &h.Client{}
func opens() { var d net.Dialer; _ = d }
func takes(s *h.Server, c net.Conn) { s.Close() }
`
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := makers("internal/p", file), []string{"internal/p.init", "internal/p.opens"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
