package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"time"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

var nsPerOp, processorPerOp = regexp.MustCompile(`(\d+(?:\.\d+)?) ns/op`), regexp.MustCompile(`(\d+(?:\.\d+)?) processor-µs`)

// engine runs one benchmark of the storage package, in this run and on this disk, and returns operations a second and
// the µs of processor for each.
func (b *bench) engine(bin, bench string) (rate, cpu float64, err error) {
	cmd := exec.Command(bin, "-test.run=^$", "-test.bench="+bench, "-test.benchtime="+length().String(), "-test.count=1")
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), "TMPDIR="+b.dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w: %s", bench, err, out)
	}
	m, used := nsPerOp.FindSubmatch(out), processorPerOp.FindSubmatch(out)
	if m == nil || used == nil {
		return 0, 0, fmt.Errorf("%s prints no ns/op or no processor-µs: %s", bench, out)
	}
	ns, err1 := strconv.ParseFloat(string(m[1]), 64)
	cpu, err2 := strconv.ParseFloat(string(used[1]), 64)
	return 1e9 / ns, cpu, errors.Join(err1, err2)
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

// engines builds the benchmarks of the storage package and returns the path of the binary.
func (b *bench) engines() (string, error) {
	bin := filepath.Join(b.dir, "badgerstore.test")
	build := exec.Command("go", "test", "-c", "-o", bin, "./storage/badgerstore")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return bin, nil
}

// durable compares token issue with the limits of the disk and the engine.
func (b *bench) durable() error {
	bin, err := b.engines()
	if err != nil {
		return err
	}
	var issue, floor, respond []sample
	var raw, put, commit, sync []float64
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
		plain := b.plain(2)
		plain.conns = 64
		a, err := load(plain, length(), 0)
		if err != nil {
			return err
		}
		r, _, err1 := b.engine(bin, "^BenchmarkRawBadgerSyncWrites$")
		p, c, err2 := b.engine(bin, "^BenchmarkUpdate$/^writers=64$")
		y, err3 := b.syncs()
		if err := errors.Join(err1, err2, err3, b.ctx.Err()); err != nil {
			return err
		}
		issue, floor, respond = append(issue, s), append(floor, n), append(respond, a)
		raw, put, commit, sync = append(raw, r), append(put, p), append(commit, c), append(sync, y)
	}
	f := mediansOf(issue)
	b.row("load generator alone, 64 connections", mediansOf(floor))
	b.row("client_credentials, durable, 64 connections", f)
	plain := mediansOf(respond)
	b.row("plain Caddy, respond, 64 connections", plain)
	b.note("Badger with SyncWrites, 64 writers", "%.0f puts/s", median(raw))
	b.note("our group commit, 64 writers, 300 bytes each", "%.0f puts/s, %.1f µs of processor each", median(put), median(commit))
	b.note("sync of an append of 4 KiB, median", "%.0f µs", median(sync))
	b.atLeast("client_credentials / Badger with SyncWrites", f.rate/median(raw), 2.5)
	b.atLeast("client_credentials / our group commit", f.rate/median(put), 0.4)
	// What the one above can reach at most: a server that only answers as respond does, and commits one record.
	most := float64(runtime.NumCPU()) * 1e6 / (plain.cpu + median(commit) + plain.own)
	b.atLeast("plain Caddy's respond and one commit, by their processor / our group commit", most/median(put), 0.4)
	b.atMost("client_credentials, µs of processor", f.cpu, 100)
	b.atMost("client_credentials, p99 in ms", f.p99, 12)
	return nil
}
