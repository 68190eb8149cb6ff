// Command bench measures the built binary against itself, against plain Caddy, against the disk and against peers, on
// one machine in one interleaved run, and compares the figures with their goals (docs/performance.md).
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

var (
	rounds     = flag.Int("rounds", 5, "interleaved rounds; figures are medians of them")
	seconds    = flag.Float64("seconds", 2, "length of one measurement")
	websockets = flag.Int("websockets", 10_000, "quiet WebSockets, as far as the limit of open files allows")
	tokens     = flag.Int("tokens", 1_000_000, "live tokens of the memory figures")
	devices    = flag.Int("devices", 10_000, "devices that wait for a person")
	only       = flag.String("only", "",
		"parts to run: speed, against, proofs, gates, devices, durable, half, beside, flood, flows, jwts, again, postgres, sockets, memory. Default: all")
	other = flag.String("against", "",
		"another binary, such as that of an earlier commit, to measure in turn with ours")
	profiled = flag.String("profile", "", "write a processor profile of the server during this measurement to bin/")
	guide    = flag.String("pgo", "",
		"write the profiles of all measurements of the server, as one, to this file: the build is guided by it")
	role     = flag.String("role", "", "of a child process")
	addr     = flag.String("addr", "", "of a child process")
	rate     = flag.Int("rate", 0, "of a child process")
	document = flag.String("document", "", "a document whose last run is replaced by the report")
	keepDirs = flag.Bool("keep", false, "keep the working directory")
)

func main() {
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	child, err := asChild()
	if !child {
		var text string
		text, err = run(ctx)
		fmt.Print(text)
		err = errors.Join(err, os.WriteFile(filepath.Join("..", "bin", "bench.txt"), []byte(text), //nolint:gosec // figures are for everybody
			0o644))
		if *document != "" && err == nil {
			err = intoDocument(*document, text, time.Now())
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// asChild runs what the role of this process is, and reports whether it has one.
func asChild() (bool, error) {
	switch *role {
	case "upstream":
		return true, upstream(*addr)
	case "nothing":
		return true, nothing(*addr)
	case "allowing":
		return true, allowing(*addr)
	case "paced":
		return true, pacedChild(*addr, *rate)
	case "":
		return false, nil
	default:
		return true, fmt.Errorf("unknown role %q", *role)
	}
}

// upstream answers every request with a few bytes, and names a user to a caller that asks it to authorize. It knows
// every token.
func upstream(addr string) error {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/introspect" {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, elsewhere)
			return
		}
		if r.URL.Path == "/tunnel" {
			lab.ServeTunnel(w)
			return
		}
		w.Header().Set("Remote-User", "demo")
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Length", "3")
		_, _ = w.Write([]byte("ok\n"))
	})
	s := &http.Server{Addr: addr, Handler: h, ReadHeaderTimeout: 10 * time.Second}
	return s.ListenAndServe()
}

// nothing answers each read with the same bytes, whatever is asked: a request of the load generator arrives whole.
func nothing(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			buf := make([]byte, 16<<10)
			for {
				if _, err := c.Read(buf); err != nil {
					return
				}
				if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n"); err != nil {
					return
				}
			}
		}()
	}
}

// pacedChild reads a request from its standard input and writes the latencies to its standard output.
func pacedChild(addr string, rate int) error {
	request, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	lat, err := paced(target{addr: addr, conns: 8, request: request, want: http.StatusOK}, rate, time.Duration(*seconds*float64(time.Second)))
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode([3]time.Duration{quantile(lat, 0.5), quantile(lat, 0.99), time.Duration(len(lat))})
}

// bench is one run.
type bench struct {
	ctx       context.Context
	dir       string
	self      string
	binary    string // what is measured
	server    *lab.Server
	stock     *process // plain Caddy
	nothing   *process
	allowing  *process // answers the checks of Envoy
	up        *process
	echo      string            // address of the upstream
	gateway   int               // port for oauth2-proxy
	grpc      int               // port of our server for the checks of Envoy
	elsewhere int               // port of our site that takes the tokens of another server
	tokens    map[string]string // client, person, jwt, and the cookies of a session
	guides    guides
	report
}

// run measures and returns the report. A figure that falls short is no error.
func run(ctx context.Context) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	// Next to the sources, so the data is on a disk and not in memory.
	dir, err := os.MkdirTemp(".", ".run-")
	if err != nil {
		return "", err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	if !*keepDirs {
		defer os.RemoveAll(dir)
	}
	b := &bench{ctx: ctx, dir: dir, self: self, guides: guides{}}
	if b.binary, err = measured(); err != nil {
		return "", err
	}
	parts := []struct {
		name string
		run  func() error
	}{
		{"speed", b.speed},
		{"against", b.against},
		{"proofs", b.proving},
		{"gates", b.gates},
		{"devices", b.polling},
		{"durable", b.durable},
		{"half", b.half},
		{"beside", b.whileIssuing},
		{"flood", b.flood},
		{"flows", b.flows},
		{"jwts", b.jwts},
		{"again", b.again},
		{"postgres", b.postgres},
		{"sockets", b.sockets},
		{"memory", b.memory},
	}
	defer b.stop()
	if err := b.start(); err != nil {
		return "", err
	}
	var failed error
	for _, p := range parts {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), p.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "bench: %s\n", p.name)
		if err := p.run(); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", p.name, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	if *guide != "" {
		failed = errors.Join(failed, b.guides.write(*guide))
	}
	return b.print(), failed
}

// start starts the upstream, plain Caddy and our server, and signs a person in.
func (b *bench) start() (err error) {
	ports, err := lab.FreePorts(6)
	if err != nil {
		return err
	}
	b.echo, b.gateway, b.grpc, b.elsewhere = fmt.Sprintf("127.0.0.1:%d", ports[0]), ports[2], ports[3], ports[4]
	if b.up, err = b.launch("upstream", ports[:1], nil, b.self, "-role", "upstream", "-addr", b.echo); err != nil {
		return err
	}
	b.nothing, err = b.launch("nothing", ports[1:2], nil, b.self, "-role", "nothing", "-addr", fmt.Sprintf("127.0.0.1:%d", ports[1]))
	if err != nil {
		return err
	}
	b.allowing, err = b.launch("allowing", ports[5:], nil, b.self, "-role", "allowing", "-addr", fmt.Sprintf("127.0.0.1:%d", ports[5]))
	if err != nil {
		return err
	}
	if err := b.fresh(); err != nil {
		return err
	}
	return b.plainCaddy(b.server.Binary)
}

func (b *bench) stop() {
	if b.server != nil {
		b.server.Kill()
	}
	for _, p := range []*process{b.stock, b.nothing, b.allowing, b.up} {
		p.kill()
	}
}

// measured is the path of what is measured.
func measured() (string, error) {
	return filepath.Abs(cmp.Or(os.Getenv("GATEHOUSE_BIN"), filepath.Join("..", "bin", "gatehouse")))
}

// fresh replaces the running server with one on an empty directory.
func (b *bench) fresh() error {
	if b.server != nil {
		b.server.Kill()
	}
	dir, err := os.MkdirTemp(b.dir, "server-")
	if err != nil {
		return err
	}
	b.server, err = lab.New(lab.Config{
		Binary: b.binary, Dir: dir, Echo: b.echo, WebClients: 32, Persons: 31, Gatehouse: ourSettings(b.gateway),
	})
	if err != nil {
		return err
	}
	// The clients of ourSettings have the secrets of the lab, which are made by New.
	b.server.Gatehouse = strings.NewReplacer("MACHINE", b.server.Machine, "WEB", b.server.Web).Replace(b.server.Gatehouse)
	gates, sites := gateSettings(b.server, b.grpc, b.elsewhere)
	b.server.Gatehouse, b.server.Sites = b.server.Gatehouse+gates, sites
	if err := b.server.WriteConfig(); err != nil {
		return err
	}
	if _, err := b.server.StartReady(b.ctx); err != nil {
		return err
	}
	return b.credentials()
}

// ourSettings are the clients and the provider of the rows, besides those of the lab.
func ourSettings(gateway int) string {
	s := "\tidp edge header {\n\t\ttrust 127.0.0.1\n\t\tuser X-Remote-User\n\t}\n"
	for _, alg := range []string{"RS256", "ES256"} {
		s += fmt.Sprintf("\tclient flow-%s {\n\t\tsecret WEB\n\t\tredirect_uris %s\n\t\tgrants authorization_code\n\t\tscopes openid\n\t\tconsent off\n\t\tidps edge\n\t\tid_token_alg %s\n\t}\n",
			strings.ToLower(alg), lab.Callback, alg)
		s += fmt.Sprintf("\tclient jwt-%s {\n\t\tsecret MACHINE\n\t\tgrants client_credentials\n\t\tscopes %s\n\t\ttoken_format jwt\n\t\tid_token_alg %s\n\t}\n",
			strings.ToLower(alg), lab.Scope, alg)
	}
	s += fmt.Sprintf("\tclient %s {\n\t\tpublic\n\t\tgrants device_code\n\t\tscopes openid\n\t}\n", tv)
	s += fmt.Sprintf("\tclient jwt {\n\t\tsecret MACHINE\n\t\tgrants client_credentials\n\t\tscopes %s\n\t\ttoken_format jwt\n\t\tlifetimes {\n\t\t\taccess_token 24h\n\t\t}\n\t}\n", lab.Scope)
	return s + fmt.Sprintf("\tclient gateway {\n\t\tsecret WEB\n\t\tredirect_uris http://localhost:%d/oauth2/callback\n\t\tgrants authorization_code\n\t\tscopes openid\n\t\tconsent off\n\t\tidps edge\n\t}\n", gateway)
}

// credentials gets what the requests of the rows carry.
func (b *bench) credentials() error {
	s := b.server
	own := func(client string) string {
		form := url.Values{"grant_type": {"client_credentials"}, "scope": {lab.Scope}}
		return s.Post(b.ctx, "/oauth/token", client, s.Machine, form).Text("access_token")
	}
	b.tokens = map[string]string{"client": own(lab.MachineID), "jwt": own("jwt")}
	br := s.NewBrowser()
	defer br.Forget()
	code, verifier, err := br.SignIn(b.ctx, lab.WebClient(0))
	if err != nil {
		return err
	}
	b.tokens["person"] = s.Redeem(b.ctx, lab.WebClient(0), code, verifier).Text("access_token")
	// The issuer knows the browser now, so the site needs no page.
	if a, at := br.Visit(b.ctx, s.Wiki()+"/orders"); a.Status != http.StatusOK {
		return fmt.Errorf("%s answered %d: %w", at, a.Status, a.Err)
	}
	at, err := url.Parse(s.Wiki())
	if err != nil {
		return err
	}
	var cookies []string
	for _, c := range br.HTTP.Jar.Cookies(at) {
		cookies = append(cookies, c.Name+"="+c.Value)
	}
	b.tokens["session"] = strings.Join(cookies, "; ")
	for name, value := range b.tokens {
		if value == "" {
			return fmt.Errorf("the server gave no %s token", name)
		}
	}
	return nil
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(v))[len(v)/2]
}
