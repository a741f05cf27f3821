// SPDX-License-Identifier: Apache-2.0

package istiod

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// Addresses of the servers: Kubernetes takes none of the loopback for endpoints.
const (
	addressA = "10.77.0.1"
	addressB = "10.77.0.2"
	serving  = 8000
)

// kubernetes is a running API server, with nothing but etcd behind it.
type kubernetes struct {
	address    netip.AddrPort
	server     *harness.Process
	client     *http.Client
	kubeconfig string
}

const token = "test"

func startKubernetes(t *testing.T, place *harness.Place) *kubernetes {
	t.Helper()
	dir, etcd, peers := t.TempDir(), "http://"+freeAddress(t, place).String(), "http://"+freeAddress(t, place).String()
	k := &kubernetes{address: freeAddress(t, place), client: place.HTTPClient()}
	k.client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // its certificate is of its own making
	place.Run(t, built(t, "kubernetes/bin/etcd"), "--data-dir", filepath.Join(dir, "etcd"), "--listen-client-urls", etcd, "--advertise-client-urls", etcd,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default="+peers, "--log-level", "error")
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	key := write("key", pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(private)}))
	k.server = place.Run(t, built(t, "kubernetes/bin/kube-apiserver"), "--etcd-servers="+etcd, "--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", k.address.Port()), "--cert-dir="+filepath.Join(dir, "certs"), "--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+key, "--service-account-signing-key-file="+key, "--service-cluster-ip-range=10.96.0.0/16",
		"--token-auth-file="+write("tokens", []byte(token+",admin,1,system:masters\n")), "--authorization-mode=RBAC", "--disable-admission-plugins=ServiceAccount",
		"--endpoint-reconciler-type=none", "--advertise-address="+addressA)
	harness.Eventually(t, istiodPatience, "the API server is ready", func() bool {
		status, _, err := k.do(http.MethodGet, "/readyz", nil)
		return err == nil && status == http.StatusOK
	})
	k.kubeconfig = writeKubeconfig(t, object{"server": "https://" + k.address.String(), "insecure-skip-tls-verify": true}, object{"token": token})
	return k
}

func (k *kubernetes) do(method, path string, body any) (status int, answer []byte, err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return 0, nil, err
	}
	r, err := http.NewRequest(method, "https://"+k.address.String()+path, bytes.NewReader(text))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	response, err := k.client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

// create makes an object at once, or when the API server has learned of its kind.
func (k *kubernetes) create(t *testing.T, path string, body object) {
	t.Helper()
	var last string
	defer func() {
		if t.Failed() {
			t.Logf("%s: %s", path, last)
		}
	}()
	harness.Eventually(t, istiodPatience, "created in "+path, func() bool {
		status, answer, err := k.do(http.MethodPost, path, body)
		last = fmt.Sprint(status, string(answer), err)
		return err == nil && status == http.StatusCreated
	})
}

// replace changes an object that is there.
func (k *kubernetes) replace(t *testing.T, path string, body object) {
	t.Helper()
	status, answer, err := k.do(http.MethodPut, path, body)
	if err != nil || status != http.StatusOK {
		t.Fatalf("replace %s: %d %s %v", path, status, answer, err)
	}
}

func (k *kubernetes) createDefinitions(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(built(t, "istiod/crds.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range strings.Split(string(text), "\n---\n") {
		definition := object{}
		if err := yaml.Unmarshal([]byte(one), &definition); err != nil {
			t.Fatal(err)
		}
		if definition["kind"] == "CustomResourceDefinition" {
			k.create(t, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
		}
	}
}

const (
	servicesPath = "/api/v1/namespaces/default/services"
	slicesPath   = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
	istioPath    = "/apis/networking.istio.io/v1/namespaces/default/"
)

func serviceObject(name string) object {
	return object{
		"apiVersion": "v1", "kind": "Service", "metadata": object{"name": name, "namespace": "default"},
		"spec": object{"ports": []any{object{"name": "http", "port": 9080, "targetPort": serving}}},
	}
}

func sliceObject(service string, addresses ...string) object {
	endpoints := []any{}
	for _, a := range addresses {
		endpoints = append(endpoints, object{"addresses": []string{a}, "conditions": object{"ready": true}})
	}
	return object{
		"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
		"metadata":  object{"name": service + "-1", "namespace": "default", "labels": object{"kubernetes.io/service-name": service}},
		"endpoints": endpoints, "ports": []any{object{"name": "http", "port": serving, "protocol": "TCP"}},
	}
}

func istioObject(kind, name string, spec object) object {
	return object{"apiVersion": "networking.istio.io/v1", "kind": kind, "metadata": object{"name": name, "namespace": "default"}, "spec": spec}
}

func sidecarObject(app, bind string) object {
	return istioObject("Sidecar", app, object{
		"workloadSelector": object{"labels": object{"app": app}},
		"egress": []any{object{
			"port": object{"number": 9080, "protocol": "HTTP", "name": "http"}, "bind": bind, "captureMode": "NONE", "hosts": []string{"./*"},
		}},
	})
}

// watched is a load on one balancer.
type watched struct {
	name string
	load *harness.Process
}

func (w *watched) served(t *testing.T, by string) int {
	t.Helper()
	var r programs.LoadReport
	w.load.Ask(t, "report", &r)
	return r.Served[0][by]
}

// Endpoints come and go in Kubernetes; istiod tells XLB and Envoy. No request fails, and both follow in about the same time.
func TestKubernetesServicesAreFollowed(t *testing.T) {
	place := harness.Isolated(t)
	place.AddAddress(t, addressA+"/32")
	place.AddAddress(t, addressB+"/32")
	for name, address := range map[string]string{"a": addressA, "b": addressB} {
		place.OriginAt(t, name, netip.AddrPortFrom(netip.MustParseAddr(address), serving))
	}
	k := startKubernetes(t, place)
	k.createDefinitions(t)
	k.create(t, "/api/v1/namespaces", object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": "istio-system"}})
	k.create(t, istioPath+"sidecars", sidecarObject("xlb", "127.82.1.1"))
	k.create(t, istioPath+"sidecars", sidecarObject("envoy", "127.82.1.2"))
	k.create(t, istioPath+"destinationrules", istioObject("DestinationRule", "shop", object{
		"host": shop, "trafficPolicy": object{"loadBalancer": object{"simple": "ROUND_ROBIN"}},
	}))
	k.create(t, servicesPath, serviceObject("shop"))
	k.create(t, slicesPath, sliceObject("shop", addressA))

	w := &world{control: startIstiod(t, place, k.kubeconfig, "testdata/mesh.yaml", false, upstream...), place: place}
	modes := harness.Modes(t)
	w.xlb = harness.Start(t, modes[0], w.bootstrap("xlb"), place)
	harness.StartEnvoy(t, w.bootstrap("envoy"), place)
	both := []*watched{{name: "XLB"}, {name: "Envoy"}}
	for i, to := range []string{atXLB, atEnvoy} {
		w.await(t, to, request{"GET", shop, "/", ""}, func(r programs.Reply) bool { return r.Status == http.StatusOK })
		both[i].load = place.Program(t, programs.LoadProgram, programs.LoadSpec{Address: to, Connections: 2, Asks: []programs.Ask{{Path: "/", Host: shop}}, Pause: time.Millisecond})
	}

	took := map[string][]time.Duration{}
	for range 5 {
		before := map[*watched]int{}
		for _, one := range both {
			before[one] = one.served(t, "b")
		}
		began := time.Now()
		k.replace(t, slicesPath+"/shop-1", sliceObject("shop", addressA, addressB))
		awaitEach(t, both, "the new endpoint serves", func(one *watched) bool { return one.served(t, "b") > before[one] },
			func(one *watched) { took[one.name] = append(took[one.name], time.Since(began)) })
		k.replace(t, slicesPath+"/shop-1", sliceObject("shop", addressA))
		awaitEach(t, both, "the endpoint that is gone serves no more", func(one *watched) bool {
			n := one.served(t, "b")
			time.Sleep(20 * time.Millisecond)
			return one.served(t, "b") == n
		}, func(*watched) {})
	}
	for name, all := range took {
		slices.Sort(all)
		t.Logf("%s: from the API call to the first request at the new endpoint: %v", name, all)
	}
	followNewService(t, w, k)
	// Without its API server istiod keeps what it knows.
	k.server.Kill(t)
	time.Sleep(2 * time.Second)
	if w.xlb.Metric(t, "envoy_control_plane_connected_state") != 1 {
		t.Error("XLB has lost istiod with the API server")
	}
	for _, one := range both {
		var r programs.LoadReport
		one.load.Finish(t, &r)
		if r.Failed != 0 || r.Total < 100 {
			t.Errorf("%s: %d of %d requests failed: %v", one.name, r.Failed, r.Total, r.Failures)
		}
		t.Logf("%s: %d requests, none failed", one.name, r.Total)
	}
	if refused := w.log.lines("ACK ERROR"); len(refused) > 0 {
		t.Errorf("istiod was told: %v", refused)
	}
	w.xlb.RequireFast(t, w.xlb.Mode, 0.9)
}

// awaitEach polls all at once, so that the first does not wait for the last.
func awaitEach(t *testing.T, all []*watched, what string, is func(*watched) bool, then func(*watched)) {
	t.Helper()
	waiting := slices.Clone(all)
	harness.Eventually(t, patience, what, func() bool {
		waiting = slices.DeleteFunc(waiting, func(one *watched) bool {
			if !is(one) {
				return false
			}
			then(one)
			return true
		})
		return len(waiting) == 0
	})
}

// followNewService makes a Service and sees both serve it, and then a route to it.
func followNewService(t *testing.T, w *world, k *kubernetes) {
	t.Helper()
	k.create(t, slicesPath, sliceObject("cart", addressB))
	k.create(t, servicesPath, serviceObject("cart"))
	for _, to := range []string{atXLB, atEnvoy} {
		w.await(t, to, request{"GET", "cart.default", "/", ""}, func(r programs.Reply) bool { return r.Status == http.StatusOK && r.Identity == "b" })
	}
	k.create(t, istioPath+"virtualservices", istioObject("VirtualService", "shop", object{
		"hosts": []string{shop},
		"http": []any{
			object{"match": []any{object{"uri": object{"prefix": "/cart"}}}, "route": []any{object{"destination": object{"host": "cart.default.svc.cluster.local"}}}},
			object{"route": []any{object{"destination": object{"host": shop}}}},
		},
	}))
	for _, to := range []string{atXLB, atEnvoy} {
		w.await(t, to, request{"GET", shop, "/cart", ""}, func(r programs.Reply) bool { return r.Status == http.StatusOK && r.Identity == "b" })
	}
}
