package faults

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Image is an ext4 file system inside a file, mounted at one place. It needs the right to mount.
type Image struct {
	File, Mount string
	mounted     bool
}

func run(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// NewImage makes and mounts a file system of size bytes below dir.
func NewImage(dir string, size int64) (*Image, error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("this fault mounts a file system, which user %d cannot: run it as root", os.Geteuid())
	}
	i := &Image{File: filepath.Join(dir, "disk.img"), Mount: filepath.Join(dir, "disk")}
	f, err := os.Create(i.File)
	if err != nil {
		return nil, err
	}
	if err := errorsJoin(f.Truncate(size), f.Close(), os.MkdirAll(i.Mount, 0o700)); err != nil {
		return nil, err
	}
	if err := run("mkfs.ext4", "-q", "-F", "-m", "0", i.File); err != nil {
		return nil, err
	}
	return i, i.mount()
}

// mount mounts the file. No timer writes the journal, so a copy of the frozen image is what a power loss at that moment
// leaves behind.
func (i *Image) mount() error {
	if err := run("mount", "-o", "loop,commit=300", i.File, i.Mount); err != nil {
		return fmt.Errorf("no right to mount, or no loop device: %w", err)
	}
	i.mounted = true
	return nil
}

// Unmount releases the file system.
func (i *Image) Unmount() error {
	if !i.mounted {
		return nil
	}
	i.mounted = false
	return run("umount", i.Mount)
}

// Copy copies the image as it is on the underlying disk, without anything that the mounted file system has not written.
func (i *Image) Copy(to string) error {
	return run("cp", "--sparse=auto", i.File, to)
}

// Replace mounts another image in place of this one, which is lost.
func (i *Image) Replace(by string) error {
	if err := i.Unmount(); err != nil {
		return err
	}
	if err := os.Rename(by, i.File); err != nil {
		return err
	}
	return i.mount()
}

// Free returns the free bytes of the file system.
func (i *Image) Free() int64 {
	var st syscall.Statfs_t
	if syscall.Statfs(i.Mount, &st) != nil {
		return -1
	}
	return int64(st.Bavail) * st.Bsize
}

// filler is the name of the file that takes the space.
func (i *Image) filler() string { return filepath.Join(i.Mount, "filler") }

// Fill writes until nothing is left and calls watch after each MiB.
func (i *Image) Fill(watch func(free int64)) error {
	f, err := os.OpenFile(i.filler(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	for size := 1 << 20; size >= 4096; size /= 2 {
		block := make([]byte, size)
		for n := range block {
			block[n] = byte(n) | 1 // no hole
		}
		for {
			if _, err := f.Write(block); err != nil {
				break
			}
			watch(i.Free())
		}
	}
	return f.Sync()
}

// Empty frees the space.
func (i *Image) Empty() error { return os.Remove(i.filler()) }
