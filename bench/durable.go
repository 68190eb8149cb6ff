package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

var nsPerOp = regexp.MustCompile(`(\d+(?:\.\d+)?) ns/op`)

// engine runs one benchmark of the storage package, in this run and on this disk, and returns operations a second.
func (b *bench) engine(bin, bench string) (float64, error) {
	cmd := exec.Command(bin, "-test.run=^$", "-test.bench="+bench, "-test.benchtime="+length().String(), "-test.count=1")
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), "TMPDIR="+b.dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%s: %w: %s", bench, err, out)
	}
	m := nsPerOp.FindSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("%s prints no ns/op: %s", bench, out)
	}
	ns, err := strconv.ParseFloat(string(m[1]), 64)
	return 1e9 / ns, err
}

// syncs returns the median time of a synced append of 4 KiB on this disk, in microseconds.
func (b *bench) syncs() (float64, error) {
	f, err := os.CreateTemp(b.dir, "sync-")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	block := make([]byte, 4096)
	var all []float64
	for range 300 {
		begin := time.Now()
		if _, err := f.Write(block); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		all = append(all, float64(time.Since(begin).Microseconds()))
	}
	return median(all), nil
}

// durable compares token issue with the limits of the disk and the engine.
func (b *bench) durable() error {
	bin := filepath.Join(b.dir, "badgerstore.test")
	build := exec.Command("go", "test", "-c", "-o", bin, "./storage/badgerstore")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	var issue, floor []sample
	var raw, put, sync []float64
	for range *rounds {
		done := b.profileOf("issue", length())
		s, err := load(b.issue(lab.MachineID), length(), 0)
		done()
		if err != nil {
			return err
		}
		n, err := load(b.floor(64), length(), 0)
		if err != nil {
			return err
		}
		r, err1 := b.engine(bin, "^BenchmarkRawBadgerSyncWrites$")
		p, err2 := b.engine(bin, "^BenchmarkUpdate$/^writers=64$")
		y, err3 := b.syncs()
		if err := errors.Join(err1, err2, err3, b.ctx.Err()); err != nil {
			return err
		}
		issue, floor = append(issue, s), append(floor, n)
		raw, put, sync = append(raw, r), append(put, p), append(sync, y)
	}
	f := mediansOf(issue)
	b.row("load generator alone, 64 connections", mediansOf(floor))
	b.row("client_credentials, durable, 64 connections", f)
	b.note("Badger with SyncWrites, 64 writers", "%.0f puts/s", median(raw))
	b.note("our group commit, 64 writers, 300 bytes each", "%.0f puts/s", median(put))
	b.note("sync of an append of 4 KiB, median", "%.0f µs", median(sync))
	b.atLeast("client_credentials / Badger with SyncWrites", f.rate/median(raw), 2.5)
	b.atLeast("client_credentials / our group commit", f.rate/median(put), 0.4)
	b.atMost("client_credentials, µs of processor", f.cpu, 100)
	b.atMost("client_credentials, p99 in ms", f.p99, 12)
	return nil
}
