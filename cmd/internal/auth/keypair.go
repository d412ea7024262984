package auth

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Keypair is a certificate and its key in two PEM files, which are read anew when
// they change. It may be used from many goroutines.
type Keypair struct {
	certFile, keyFile string
	log               *slog.Logger
	now               func() time.Time

	mu     sync.Mutex
	cert   *tls.Certificate
	stamp  [2]time.Time // of the files when they were read last
	looked time.Time
}

// lookEvery is how often the files are looked at, at most.
const lookEvery = time.Second

// OpenKeypair reads the files. logger gets later errors (nil: discarded).
func OpenKeypair(certFile, keyFile string, logger *slog.Logger) (*Keypair, error) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	k := &Keypair{certFile: certFile, keyFile: keyFile, log: logger, now: time.Now}
	if err := k.read(); err != nil {
		return nil, err
	}
	return k, nil
}

// Config is for a listener: TLS 1.2 or later, with the certificate as it is at
// each handshake.
func (k *Keypair) Config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return k.current(), nil
		},
	}
}

// current is the certificate, read anew when its files have changed. When that
// fails, the one before stays.
func (k *Keypair) current() *tls.Certificate {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := k.now(); now.Sub(k.looked) >= lookEvery {
		k.looked = now
		if stamp, err := k.stamps(); err != nil || stamp != k.stamp {
			if err := k.read(); err != nil {
				k.log.Warn("the certificate cannot be read anew; the one before stays in use", "error", err)
			} else {
				k.log.Info("the certificate was read anew", "file", k.certFile)
			}
		}
	}
	return k.cert
}

// read takes the files over. Nothing changes when it fails.
func (k *Keypair) read() error {
	stamp, err := k.stamps()
	if err != nil {
		return fmt.Errorf("read the certificate: %w", err)
	}
	cert, err := tls.LoadX509KeyPair(k.certFile, k.keyFile)
	if err != nil {
		return fmt.Errorf("read the certificate %s with the key %s: %w", k.certFile, k.keyFile, err)
	}
	k.cert, k.stamp = &cert, stamp
	return nil
}

func (k *Keypair) stamps() (stamp [2]time.Time, err error) {
	for i, f := range []string{k.certFile, k.keyFile} {
		info, err := os.Stat(f)
		if err != nil {
			return stamp, err
		}
		stamp[i] = info.ModTime()
	}
	return stamp, nil
}
