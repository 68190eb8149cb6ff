// Command bench measures the built binary against itself, against plain Caddy and against the disk, on one machine in
// one interleaved run, and compares the figures with their targets.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

var (
	rounds   = flag.Int("rounds", 5, "interleaved rounds; figures are medians of them")
	seconds  = flag.Float64("seconds", 2, "length of one measurement")
	tokens   = flag.Int("tokens", 1_000_000, "live tokens of the memory figures")
	only     = flag.String("only", "", "parts to run: speed, durable, half, beside, flood, memory. Default: all")
	profile  = flag.String("profile", "", "write a processor profile of the server during this measurement to bin/")
	role     = flag.String("role", "", "of a child process")
	addr     = flag.String("addr", "", "of a child process")
	rate     = flag.Int("rate", 0, "of a child process")
	keepDirs = flag.Bool("keep", false, "keep the working directory")
)

func main() {
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	var err error
	switch *role {
	case "upstream":
		err = upstream(*addr)
	case "paced":
		err = pacedChild(*addr, *rate)
	case "":
		err = run(ctx)
	default:
		err = fmt.Errorf("unknown role %q", *role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// upstream answers every request with a few bytes, and names a user to a caller that asks it to authorize.
func upstream(addr string) error {
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Remote-User", "demo")
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Length", "3")
		_, _ = w.Write([]byte("ok\n"))
	})
	s := &http.Server{Addr: addr, Handler: h, ReadHeaderTimeout: 10 * time.Second}
	return s.ListenAndServe()
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
	ctx    context.Context
	dir    string
	self   string
	server *lab.Server
	echo   string
	extra  []int // ports of the comparison sites: forward_auth, respond
	token  string
	table  []figure
}

// figure is one line of the table.
type figure struct {
	what, got, want string
	ok              bool
}

func (b *bench) figure(ok bool, what, want, format string, args ...any) {
	b.table = append(b.table, figure{what, fmt.Sprintf(format, args...), want, ok})
}

// note is a figure without a target.
func (b *bench) note(what, format string, args ...any) { b.figure(true, what, "", format, args...) }

func run(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	// Next to the sources, so that the data is on a disk and not in memory.
	dir, err := os.MkdirTemp(".", ".run-")
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if !*keepDirs {
		defer os.RemoveAll(dir)
	}
	b := &bench{ctx: ctx, dir: dir, self: self}
	parts := []struct {
		name string
		run  func() error
	}{{"speed", b.speed}, {"durable", b.durable}, {"half", b.half}, {"beside", b.beside}, {"flood", b.flood}, {"memory", b.memory}}
	var failed error
	if err := b.start(); err != nil {
		return err
	}
	defer func() { b.server.Kill() }()
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
	text := b.print()
	fmt.Print(text)
	return errors.Join(failed, os.WriteFile(filepath.Join("..", "bin", "bench.txt"), []byte(text), 0o644)) //nolint:gosec // figures are for everybody
}

func (b *bench) print() string {
	var s strings.Builder
	missed := 0
	fmt.Fprintf(&s, "\n%-62s %26s  %s\n", "figure", "measured", "target")
	for _, f := range b.table {
		verdict := ""
		switch {
		case f.want == "":
		case f.ok:
			verdict = "pass"
		default:
			verdict = "MISS"
			missed++
		}
		fmt.Fprintf(&s, "%-62s %26s  %-34s %s\n", f.what, f.got, f.want, verdict)
	}
	fmt.Fprintf(&s, "%d figures, %d missed\n", len(b.table), missed)
	return s.String()
}

// start starts the upstream and the server with the comparison sites, and signs a person in.
func (b *bench) start() error {
	ports, err := lab.FreePorts(3)
	if err != nil {
		return err
	}
	b.extra, b.echo = ports[1:], fmt.Sprintf("127.0.0.1:%d", ports[0])
	up := exec.Command(b.self, "-role", "upstream", "-addr", b.echo)
	up.Stderr = os.Stderr
	up.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := up.Start(); err != nil {
		return err
	}
	for range 200 {
		if c, err := net.Dial("tcp", b.echo); err == nil {
			_ = c.Close()
			break
		}
		pause(10 * time.Millisecond)
	}
	return b.fresh()
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
	bin := os.Getenv("GATEHOUSE_BIN")
	if bin == "" {
		bin = filepath.Join("..", "bin", "gatehouse")
	}
	if bin, err = filepath.Abs(bin); err != nil {
		return err
	}
	b.server, err = lab.New(lab.Config{
		Binary: bin, Dir: dir, Echo: b.echo, WebClients: 32, Persons: 31,
		Sites: fmt.Sprintf(`http://localhost:%d {
	forward_auth {echo} {
		uri /auth
		copy_headers Remote-User
	}
	reverse_proxy {echo}
}
http://localhost:%d {
	respond "a short answer of about the size of an introspection, to be fair to both of them: 0123456789 0123456789 0123456789"
}
`, b.extra[0], b.extra[1]),
	})
	if err != nil {
		return err
	}
	if _, err := b.server.StartReady(b.ctx); err != nil {
		return err
	}
	b.token = b.server.Issue(b.ctx).Text("access_token")
	if b.token == "" {
		return errors.New("no token was issued")
	}
	return nil
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(v))[len(v)/2]
}

// profileOf writes a profile of the server during a measurement.
func (b *bench) profileOf(name string, d time.Duration) func() {
	if *profile != name {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		slow := &http.Client{Timeout: time.Minute}
		res, err := slow.Get(fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", b.server.Admin(), max(1, int(d.Seconds()))))
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench: profile:", err)
			return
		}
		defer res.Body.Close()
		f, err := os.Create(filepath.Join("..", "bin", "profile-"+name+".pb.gz"))
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench: profile:", err)
			return
		}
		_, err = io.Copy(f, res.Body)
		fmt.Fprintln(os.Stderr, "bench: profile written:", f.Name(), errors.Join(err, f.Close()))
	}()
	return func() { <-done }
}
