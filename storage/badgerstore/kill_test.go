//go:build unix

package badgerstore

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// victimDir is the environment variable with the directory to which this binary writes until it is killed.
const victimDir = "BADGERSTORE_VICTIM"

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimDir); dir != "" {
		victim(dir)
	}
	os.Exit(m.Run())
}

// victim writes with many goroutines and prints each key after its update has returned.
func victim(dir string) {
	s, err := openDir(context.Background(), Options{Dir: dir, SweepEvery: -1})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	var out sync.Mutex
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			for i := 0; ; i++ {
				key := fmt.Sprintf("%d/%d/%d", os.Getpid(), w, i)
				err := s.Update(context.Background(), func(tx storage.Tx) error {
					// Two records: both or neither.
					if err := tx.Create([]byte("a/"+key), []byte(strings.Repeat(key, 20)), time.Time{}); err != nil {
						return err
					}
					return tx.Create([]byte("b/"+key), []byte(key), time.Time{})
				})
				if err != nil {
					return
				}
				out.Lock()
				_, _ = fmt.Println(key)
				out.Unlock()
			}
		})
	}
	wg.Wait()
	os.Exit(1)
}

// TestKill kills the process under load, repeatedly on one directory: everything acknowledged is there.
func TestKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	acked := map[string]string{}
	for round := range 4 {
		killed := runVictim(t, dir, 3000+round*500)
		maps.Copy(acked, killed)
		s := mustOpen(t, dir)
		if n := readAll(t, s, acked); n > 0 {
			t.Errorf("round %d: %d records are damaged", round, n)
		}
		wantPairs(t, s)
		if err := s.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	}
	t.Logf("%d transactions were acknowledged, none was lost", len(acked)/2)
}

// runVictim runs the victim until it has acknowledged n transactions, and returns their records.
func runVictim(t *testing.T, dir string, n int) map[string]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), victimDir+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	acked := map[string]string{}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		key := lines.Text()
		if strings.HasPrefix(key, "error") {
			t.Fatalf("the victim says: %s", key)
		}
		acked["a/"+key], acked["b/"+key] = strings.Repeat(key, 20), key
		if len(acked) == 2*n {
			_ = cmd.Process.Kill() // transactions still in the pipe were acknowledged too
		}
	}
	_ = cmd.Wait()
	if len(acked) < 2*n {
		t.Fatalf("the victim answered %d transactions, want %d", len(acked)/2, n)
	}
	return acked
}

func wantPairs(t *testing.T, s *Store) {
	t.Helper()
	count := func(tx storage.Tx, prefix string) (keys map[string]bool, err error) {
		keys = map[string]bool{}
		for rec, err := range tx.Scan(storage.Range{Prefix: []byte(prefix)}) {
			if err != nil {
				return nil, err
			}
			keys[strings.TrimPrefix(string(rec.Key), prefix)] = true
		}
		return keys, nil
	}
	err := s.View(t.Context(), func(tx storage.Tx) error {
		a, err := count(tx, "a/")
		if err != nil {
			return err
		}
		b, err := count(tx, "b/")
		if err == nil && !maps.Equal(a, b) {
			t.Errorf("%d and %d records of transactions that wrote both: some are torn", len(a), len(b))
		}
		return err
	})
	if err != nil {
		t.Errorf("View = %v", err)
	}
}
