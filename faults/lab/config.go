// Package lab runs the built binary on ports of this machine, talks to it as clients and browsers do, and watches its
// process. The faults and benchmarks use it. It needs the standard library only.
package lab

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"strings"
	"sync"
)

// Config describes the server under test.
type Config struct {
	Binary string
	Dir    string // working directory: configuration, log, default place of the data
	Data   string // Badger directory. Default: Dir/data
	// Storage is the storage line, if it is not that of the Badger directory.
	Storage string
	// Address is the address on which the server listens. Default: 127.0.0.1
	Address string
	// WebClients is the number of clients with the code flow: web-0, web-1, ...
	WebClients int
	// Persons is the number of persons in addition to the first, all with the lab's password. Person returns their
	// names.
	Persons int
	// MinFree is the watermark of free space in Caddyfile form. Default: the server's.
	MinFree string
	// Sites are further site blocks. {echo} is replaced by the address of the upstream.
	Sites string
	// Global are further lines of the global options.
	Global string
	// Gatehouse are further lines of the gatehouse block.
	Gatehouse string
	// Identity are further lines of the identity block.
	Identity string
	// Echo is the address of the upstream, host and port.
	Echo string
	// Env are further environment variables of the server.
	Env []string
}

// The credentials of the lab. Secrets are random for each lab, so none is written down.
const (
	MachineID = "machine"
	APIID     = "rs"
	Username  = "demo@example.com"
	Scope     = "orders.read"
)

// Secrets of one lab.
type Secrets struct {
	Machine, Web, API, Password, Key string
}

// Ports of one lab, on 127.0.0.1.
type Ports struct {
	Issuer, API, Open, Wiki, Admin int
}

func newSecrets() Secrets {
	return Secrets{Machine: text(32), Web: text(32), API: text(32), Password: text(16), Key: base64.StdEncoding.EncodeToString(Random(32))}
}

// Random returns n random bytes.
func Random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return b
}

func text(n int) string { return base64.RawURLEncoding.EncodeToString(Random(n)) }

// handed has the ports that FreePorts has returned in this process.
var handed sync.Map

// FreePorts returns n ports without a listener, below the range for outgoing connections, which could otherwise take a
// port before it is used, and above 10080, the highest port that browsers refuse to open (Fetch, port blocking). It
// never returns a port twice, since the first who got it may listen on it late.
func FreePorts(n int) ([]int, error) {
	var ports []int
	for tries := 0; len(ports) < n; tries++ {
		port := 10_081 + mathrand.IntN(20_000) //nolint:gosec // no secret
		if _, taken := handed.LoadOrStore(port, true); taken {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			if tries > 100 {
				return nil, err
			}
			continue
		}
		defer l.Close() // all at the end, so no port appears twice
		ports = append(ports, port)
	}
	return ports, nil
}

// Person returns the name of a person. The first is Username.
func Person(n int) string {
	if n == 0 {
		return Username
	}
	return fmt.Sprintf("person-%d@example.com", n)
}

// WebClient returns the id of a client with the code flow.
func WebClient(n int) string { return fmt.Sprintf("web-%d", n) }

// Callback is the redirect URI of the web clients. It has no listener: the lab reads the Location.
const Callback = "http://localhost:1/callback"

// Caddyfile writes the configuration. Comment is a line that makes it differ, because Caddy skips a reload that changes
// nothing.
func (c *Config) Caddyfile(p Ports, s Secrets, comment string) string {
	var b strings.Builder
	w := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	w("# %s", comment)
	w("{\n\tadmin 127.0.0.1:%d\n\tpersist_config off\n\tauto_https off\n\tdefault_bind %s\n\tgrace_period 10s", p.Admin, c.Address)
	w("%s", c.Global)
	w("\tgatehouse {\n\t\tissuer http://localhost:%d", p.Issuer)
	switch {
	case c.Storage != "":
		w("\t\t%s", c.Storage)
	case c.MinFree != "":
		w("\t\tstorage badger %s {\n\t\t\tmin_free %s\n\t\t}", c.Data, c.MinFree)
	default:
		w("\t\tstorage badger %s", c.Data)
	}
	w("\t\tencryption_key %s", s.Key)
	w("\t\tclient %s {\n\t\t\tsecret %s\n\t\t\tgrants client_credentials\n\t\t\tscopes %s other\n\t\t\tdefault_scopes %s\n\t\t\tlifetimes {\n\t\t\t\taccess_token 24h\n\t\t\t}\n\t\t}",
		MachineID, s.Machine, Scope, Scope)
	for i := range c.WebClients {
		w("\t\tclient %s {\n\t\t\tsecret %s\n\t\t\tredirect_uris %s\n\t\t\tgrants authorization_code refresh_token\n\t\t\tscopes openid profile %s\n\t\t\tconsent off\n\t\t\tlifetimes {\n\t\t\t\taccess_token 24h\n\t\t\t\trefresh_grace 5m\n\t\t\t\tcode 5m\n\t\t\t}\n\t\t}",
			WebClient(i), s.Web, Callback, Scope)
	}
	w("\t\tapi_client %s {\n\t\t\tsecret %s\n\t\t\tapis introspection\n\t\t}", APIID, s.API)
	w("\t\tidentity {")
	for i := range c.Persons + 1 {
		w("\t\t\tperson %s {\n\t\t\t\tpassword %s\n\t\t\t\tname Demo Person\n\t\t\t\tgroups staff\n\t\t\t}", Person(i), s.Password)
	}
	w("%s\n\t\t}", c.Identity)
	w("%s\n\t}\n}", c.Gatehouse)
	w("http://localhost:%d {\n\tgatehouse\n}", p.Issuer)
	w("http://localhost:%d {\n\tprotect %s\n\treverse_proxy %s {\n\t\tstream_close_delay 5m\n\t}\n}", p.API, Scope, c.Echo)
	w("http://localhost:%d {\n\treverse_proxy %s\n}", p.Open, c.Echo)
	w("http://localhost:%d {\n\tprotect {\n\t\tlogin\n\t}\n\treverse_proxy %s\n}", p.Wiki, c.Echo)
	w("%s", strings.ReplaceAll(c.Sites, "{echo}", c.Echo))
	return b.String()
}
