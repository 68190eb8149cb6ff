package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

// against measures the requests that only read, and those that get tokens, at two binaries in turn. Both servers run
// all the time, so each pair of measurements has the same load of other programs. A row has the median of the ratios of
// the pairs, and the interval that holds the true median with 95 %.
func (b *bench) against() error {
	if *other == "" {
		return nil
	}
	before, err := b.startOther(*other)
	if err != nil {
		return fmt.Errorf("%s: %w", *other, err)
	}
	defer before.stop()
	rows := func(b *bench) []namedTarget {
		return slices.Concat(b.sites(), b.introspections(), []namedTarget{
			{rowForwardAuth, b.forwardAuth()},
			{"client_credentials, 64 connections", b.issue(lab.MachineID)},
		})
	}
	now, then := rows(b), rows(before)
	costs, ratios := make([][2][]float64, len(now)), make([][]float64, len(now))
	for round := range *rounds {
		for row := range now {
			var cost [2]float64
			for turn := range 2 {
				which := (turn + round) % 2 // neither is always the first
				s, err := load([]namedTarget{then[row], now[row]}[which].t, length(), 0)
				if err != nil {
					return fmt.Errorf("%s: %w", now[row].name, err)
				}
				cost[which] = s.perRequest(s.cpu)
				costs[row][which] = append(costs[row][which], cost[which])
			}
			ratios[row] = append(ratios[row], cost[1]/cost[0])
			if err := b.ctx.Err(); err != nil {
				return err
			}
		}
	}
	for row, n := range now {
		low, high := medianBetween(ratios[row])
		b.note("this binary / the other: "+n.name, "%.1f µs / %.1f µs of processor, ratio %.3f (%.3f to %.3f)",
			median(costs[row][1]), median(costs[row][0]), median(ratios[row]), low, high)
		b.atMost("processor, this binary / the other: "+n.name, median(ratios[row]), 1.02)
	}
	return nil
}

// startOther starts another binary with the settings of b, on ports and a directory of its own.
func (b *bench) startOther(binary string) (*bench, error) {
	ports, err := lab.FreePorts(2)
	if err != nil {
		return nil, err
	}
	o := &bench{ctx: b.ctx, dir: b.dir, self: b.self, echo: b.echo, gateway: b.gateway, grpc: ports[0], elsewhere: ports[1], binary: binary}
	if err := o.fresh(); err != nil {
		o.stop()
		return nil, err
	}
	return o, nil
}

// medianBetween returns values that the median of what v is a sample of lies between with about 95 %: those whose ranks
// are 0.98·√n from the middle (the binomial distribution of how many values lie below it).
func medianBetween(v []float64) (low, high float64) {
	sorted := slices.Sorted(slices.Values(v))
	aside := 0.98 * math.Sqrt(float64(len(sorted)))
	middle := float64(len(sorted)-1) / 2
	return sorted[max(0, int(math.Floor(middle-aside)))], sorted[min(len(sorted)-1, int(math.Ceil(middle+aside)))]
}
