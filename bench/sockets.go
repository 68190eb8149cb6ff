package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

// socket is a WebSocket through the server that no one says anything on.
type socket struct {
	conn  net.Conn
	token string
}

// many returns the number of WebSockets that are opened. Each takes the server two files.
func (b *bench) many() int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return min(*websockets, 500)
	}
	return min(*websockets, max(1, int(files.Max)/2-500)) //nolint:gosec // more than an int has is no limit
}

// sockets measures what quiet WebSockets cost the server with protect, more than without, and how soon those of a token
// end when it is revoked.
func (b *bench) sockets() error {
	without, err := b.socketMemory(false)
	if err != nil {
		return err
	}
	with, err := b.socketMemory(true)
	if err != nil {
		return err
	}
	b.note("quiet WebSocket, memory without and with protect", "%.0f B, %.0f B", without, with)
	b.atMost(fmt.Sprintf("protect, bytes for each of %d quiet WebSockets", b.many()), with-without, 4096)
	return b.cuts()
}

// socketMemory opens WebSockets at a site of a new server, where it is protected with a token each, and returns what
// the server holds for one of them, in bytes.
func (b *bench) socketMemory(protected bool) (each float64, err error) {
	if err := b.fresh(); err != nil {
		return 0, err
	}
	port, tokens := b.server.Ports.Open, make([]string, b.many())
	if protected {
		port = b.server.Ports.API
		if tokens, err = b.ownTokens(len(tokens)); err != nil {
			return 0, err
		}
	}
	before, err := b.held()
	if err != nil {
		return 0, err
	}
	all, err := b.dialAll(port, tokens)
	defer closeAll(all)
	if err != nil {
		return 0, err
	}
	pause(min(2*time.Second, length())) // until protect has taken them up
	after, err := b.held()
	if err != nil || !protected {
		return float64(after-before) / float64(len(all)), err
	}
	began, err := lab.CPU(b.server.PID())
	if err != nil {
		return 0, err
	}
	quiet := min(10*time.Second, 5*length())
	pause(quiet)
	ended, err := lab.CPU(b.server.PID())
	b.note(fmt.Sprintf("%d quiet WebSockets, processor", len(all)), "%.1f ms a second", float64((ended-began).Milliseconds())/quiet.Seconds())
	return float64(after-before) / float64(len(all)), err
}

// cuts revokes tokens, some of one WebSocket each and one that many share, and notes when the last byte came.
func (b *bench) cuts() error {
	if err := b.fresh(); err != nil {
		return err
	}
	shared, alone := min(3000, b.many()), min(200, b.many())
	tokens, err := b.ownTokens(alone + 1)
	if err != nil {
		return err
	}
	for range shared {
		tokens = append(tokens, tokens[alone])
	}
	all, err := b.dialAll(b.server.Ports.API, slices.Delete(tokens, alone, alone+1))
	defer closeAll(all)
	if err != nil {
		return err
	}
	pause(min(2*time.Second, length()))
	ends := make(chan time.Time, len(all))
	cut := func(those []socket) ([]float64, error) {
		for _, s := range those {
			go func() {
				_, _ = io.Copy(io.Discard, s.conn)
				ends <- time.Now()
			}()
		}
		if a := b.server.Revoke(b.ctx, lab.MachineID, those[0].token); a.Status != http.StatusOK {
			return nil, fmt.Errorf("a revocation was answered with %d: %w", a.Status, a.Err)
		}
		answered := time.Now()
		var took []float64
		late := time.After(time.Minute)
		for range those {
			select {
			case at := <-ends:
				took = append(took, max(0, at.Sub(answered).Seconds()*1000))
			case <-late:
				return nil, errors.New("a WebSocket stays open though its token was revoked")
			}
		}
		slices.Sort(took)
		return took, nil
	}
	var one []float64
	for i := range alone {
		took, err := cut(all[i : i+1])
		if err != nil {
			return err
		}
		one = append(one, took...)
	}
	slices.Sort(one)
	b.note("revoked until its WebSocket has ended, median and p99", "%.2f ms, %.2f ms", median(one), one[len(one)*99/100])
	b.atMost("ms from a revocation until the WebSocket has ended, p99", one[len(one)*99/100], 100)
	many, err := cut(all[alone:])
	if err != nil {
		return err
	}
	b.note(fmt.Sprintf("revoked until all %d WebSockets of it have ended, median and last", shared), "%.0f ms, %.0f ms",
		median(many), many[len(many)-1])
	return nil
}

// ownTokens gets n tokens, 16 at a time.
func (b *bench) ownTokens(n int) ([]string, error) {
	out, failed := make([]string, n), make([]error, n)
	inParallel(n, func(i int) {
		a := b.server.Issue(b.ctx)
		if out[i] = a.Text("access_token"); out[i] == "" {
			failed[i] = fmt.Errorf("a token request was answered with %d: %w", a.Status, a.Err)
		}
	})
	return out, errors.Join(failed...)
}

// dialAll opens a WebSocket with each of the tokens.
func (b *bench) dialAll(port int, tokens []string) ([]socket, error) {
	out, failed := make([]socket, len(tokens)), make([]error, len(tokens))
	inParallel(len(tokens), func(i int) {
		out[i].token = tokens[i]
		out[i].conn, failed[i] = dialSocket(port, tokens[i])
	})
	return out, errors.Join(failed...)
}

func dialSocket(port int, token string) (net.Conn, error) {
	c, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		return nil, err
	}
	_, err = c.Write(lab.Request(http.MethodGet, "localhost:"+strconv.Itoa(port), "/tunnel", "", "Connection", "Upgrade",
		"Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==", "Authorization", "Bearer "+token))
	// Read without a buffer, which would take up more than the server's side.
	var head []byte
	for one := make([]byte, 1); err == nil && !bytes.HasSuffix(head, []byte("\r\n\r\n")); {
		_, err = c.Read(one)
		head = append(head, one[0])
	}
	if err == nil && !bytes.HasPrefix(head, []byte("HTTP/1.1 101 ")) {
		status, _, _ := strings.Cut(string(head), "\r\n")
		err = fmt.Errorf("a WebSocket was answered with %s", status)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func closeAll(all []socket) {
	for _, s := range all {
		if s.conn != nil {
			_ = s.conn.Close()
		}
	}
}

func inParallel(n int, do func(i int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range 16 {
		wg.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// held returns the bytes of heap and stacks that the server uses, after a collection.
func (b *bench) held() (int64, error) {
	res, err := http.Get(b.server.Admin() + "/debug/pprof/heap?gc=1&debug=1") //nolint:noctx // it ends with the server
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err
	}
	var sum int64
	for line := range strings.Lines(string(body)) {
		for _, name := range []string{"# HeapAlloc = ", "# Stack = "} {
			if rest, ok := strings.CutPrefix(line, name); ok {
				first, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
				n, err := strconv.ParseInt(first, 10, 64)
				if err != nil {
					return 0, err
				}
				sum += n
			}
		}
	}
	if sum == 0 {
		return 0, errors.New("the server says nothing about its memory")
	}
	return sum, nil
}
