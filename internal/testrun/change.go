package main

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A change is what is not committed and the commits since the branch left main. On main it is the commits of the last
// 24 hours, and at least the last ten. The variable GATEHOUSE_BASE names another commit to compare with.

// leastCommits is the minimum number of commits of main that are looked at.
const leastCommits = 10

// changes returns the files of the change in a work tree, and where the change begins.
func changes(dir, base string) (files []string, since string, err error) {
	shallow, err := git(dir, "rev-parse", "--is-shallow-repository")
	if err != nil {
		return nil, "", err
	}
	if shallow != "false" {
		return nil, "", errors.New("a clone without history")
	}
	commits, since := []string{base + "..HEAD"}, "the commits since "+base
	if base == "" {
		if commits, since, err = recent(dir); err != nil {
			return nil, "", err
		}
	}
	named, err := git(dir, slices.Concat([]string{"log", "--name-only", "--no-renames", "--diff-merges=first-parent", "--format="},
		commits)...)
	if err != nil {
		return nil, "", err
	}
	status, err := git(dir, "status", "--porcelain", "--no-renames", "--untracked-files=all")
	if err != nil {
		return nil, "", err
	}
	for line := range strings.Lines(status) {
		named += "\n" + strings.TrimSpace(line[min(2, len(line)):])
	}
	files = strings.Fields(named)
	slices.Sort(files)
	return slices.Compact(files), since, nil
}

// recent returns the arguments of git log for the commits of the change.
func recent(dir string) (args []string, since string, err error) {
	for _, main := range []string{"origin/main", "main"} {
		at, err := git(dir, "merge-base", "HEAD", main)
		if err != nil {
			continue // there is no such branch
		}
		if head, err := git(dir, "rev-parse", "HEAD"); err == nil && at != head {
			return []string{at + "..HEAD"}, "the commits since " + main, nil
		}
	}
	count, err := git(dir, "rev-list", "--count", "--since=24.hours", "HEAD")
	if err != nil {
		return nil, "", err
	}
	n, err := strconv.Atoi(count)
	if err != nil {
		return nil, "", err
	}
	n = max(n, leastCommits)
	return []string{"-n", strconv.Itoa(n)}, fmt.Sprintf("the last %d commits", n), nil
}

func git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-c", "core.quotepath=off"}, args...)...)
	cmd.Dir = filepath.Clean(dir)
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimRight(string(out), "\n"), nil
}
