package bus

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// Why a server was not started; test with errors.Is. The wrapping error is a
// sentence that says what to do.
var (
	ErrAddressInUse        = errors.New("the address is in use")
	ErrAddress             = errors.New("the address cannot be listened on")
	ErrCredentialsRequired = errors.New("credentials are required")
	ErrDirNotWritable      = errors.New("the data directory is not writable")
	ErrDiskFull            = errors.New("the disk is full")
)

// dirError turns an error of the file system into the sentence for its kind.
func dirError(dir string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w: nothing more can be written in %s; make room, or give another directory (--data): %w", ErrDiskFull, dir, err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w: user %d may not write in %s; change its owner or mode, or give another directory (--data): %w",
			ErrDirNotWritable, os.Getuid(), dir, err)
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%w: %s, or a part of its path, is not a directory; give another one (--data): %w", ErrDirNotWritable, dir, err)
	default:
		return fmt.Errorf("%w: %s: %w", ErrDirNotWritable, dir, err)
	}
}

// checkDir makes the directory and proves that a file can be written in it.
func checkDir(dir string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return dirError(dir, err)
	}
	if err := syncNames(dir); err != nil {
		return dirError(dir, err)
	}
	f, err := os.CreateTemp(dir, ".probe-*")
	if err != nil {
		return dirError(dir, err)
	}
	_, err = f.Write(make([]byte, 4096)) // a block: an empty file fits on a full disk
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	if err != nil {
		return dirError(dir, err)
	}
	return nil
}

// syncNames makes the names on the way to a directory durable: a power cut that
// takes the directory's name takes all that was ever synced below it. All of
// them are synced each time, because the run that made one may have been killed
// before it could. A folder above that cannot be synced was not made by Muster.
func syncNames(dir string) error {
	for name := filepath.Clean(dir); name != filepath.Dir(name); name = filepath.Dir(name) {
		f, err := os.Open(filepath.Dir(name))
		if errors.Is(err, fs.ErrPermission) {
			return nil
		}
		if err != nil {
			return err
		}
		err = errors.Join(f.Sync(), f.Close())
		switch {
		case errors.Is(err, syscall.EROFS), errors.Is(err, syscall.EINVAL), errors.Is(err, errors.ErrUnsupported):
			return nil
		case err != nil:
			return fmt.Errorf("sync the name of %s: %w", name, err)
		}
	}
	return nil
}

// checkSpace refuses a file system with less than min bytes free. Where that is
// not known nothing is refused.
func checkSpace(dir string, min uint64) error {
	free, _, err := DiskFree(dir)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return err
	}
	if free < min {
		return fmt.Errorf("%w: %s has %d MiB free and Muster wants %d MiB to start; make room, or give another directory (--data)",
			ErrDiskFull, dir, free>>20, min>>20)
	}
	return nil
}

// checkListen parses host:port, refuses an open address when anybody may connect, and
// proves that the address is free. Port 0 becomes -1, the server's word for
// "any free one".
func checkListen(ctx context.Context, addr string, anybody bool) (host string, port int, err error) {
	host, p, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, fmt.Errorf("%w: %q is not host:port, as in 127.0.0.1:4222: %w", ErrAddress, addr, err)
	}
	port, err = strconv.Atoi(p)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("%w: %q: the port is a number from 0 to 65535", ErrAddress, addr)
	}
	if !Loopback(host) && anybody {
		return "", 0, fmt.Errorf("%w: %s can be reached from other machines, and anybody there could write; "+
			"name users with passwords, or listen on 127.0.0.1 only", ErrCredentialsRequired, addr)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return "", 0, listenError(addr, err)
	}
	if err := l.Close(); err != nil {
		return "", 0, fmt.Errorf("release %s after trying it: %w", addr, err)
	}
	if port == 0 {
		port = -1
	}
	return host, port, nil
}

func listenError(addr string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w: another process listens on %s; stop it, or choose another address for NATS (port 0 takes a free one)", ErrAddressInUse, addr)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%w: user %d may not listen on %s; choose a port above 1023: %w", ErrAddress, os.Getuid(), addr, err)
	default:
		return fmt.Errorf("%w: %s: %w", ErrAddress, addr, err)
	}
}

// Loopback says whether a host of a listen address can be reached from this
// machine only: localhost or a loopback IP address. Other names count as open.
func Loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
