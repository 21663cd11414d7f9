package tests

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// A proxy stands between a client and its server, and breaks what passes.
type proxy struct {
	t       *testing.T
	server  string
	address string

	mu       sync.Mutex
	listener net.Listener
	open     map[net.Conn]bool
	faults   []fault
}

// A fault befalls the next request with this word, once.
type fault struct {
	word string
	what func(request []byte, client, server net.Conn) (goesOn bool)
}

func startProxy(t *testing.T, server string) *proxy {
	t.Helper()
	p := &proxy{t: t, server: server, address: "127.0.0.1:0", open: map[net.Conn]bool{}}
	p.listen()
	t.Cleanup(p.close)
	return p
}

func (p *proxy) listen() {
	p.t.Helper()
	var listener net.Listener
	eventually(p.t, "the port is free again", func() (ok bool) {
		var err error
		listener, err = net.Listen("tcp", p.address)
		return err == nil
	})
	p.mu.Lock()
	p.listener, p.address = listener, listener.Addr().String()
	p.mu.Unlock()
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", p.server)
			if err != nil {
				_ = client.Close()
				continue
			}
			p.mu.Lock()
			p.open[client], p.open[server] = true, true
			p.mu.Unlock()
			go p.ask(client, server)
			go func() {
				_, _ = io.Copy(client, server)
				p.drop(client, server)
			}()
		}
	}()
}

func (p *proxy) ask(client, server net.Conn) {
	buffer := make([]byte, 65536)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			p.drop(client, server)
			return
		}
		request := buffer[:n]
		if what := p.fault(request); what != nil {
			if !what(request, client, server) {
				p.drop(client, server)
				return
			}
			continue
		}
		if _, err := server.Write(request); err != nil {
			p.drop(client, server)
			return
		}
	}
}

func (p *proxy) fault(request []byte) func([]byte, net.Conn, net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, fault := range p.faults {
		if bytes.Contains(request, []byte(fault.word)) {
			p.faults = append(p.faults[:i:i], p.faults[i+1:]...)
			return fault.what
		}
	}
	return nil
}

func (p *proxy) drop(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		_ = conn.Close()
		delete(p.open, conn)
	}
}

func (p *proxy) add(word string, what func([]byte, net.Conn, net.Conn) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, fault{word, what})
}

// cutBefore loses the request and its connection.
func (p *proxy) cutBefore(word string) {
	p.add(word, func([]byte, net.Conn, net.Conn) bool { return false })
}

// cutAfter lets the server have the request, and loses the reply with the connection.
func (p *proxy) cutAfter(word string) {
	p.add(word, func(request []byte, client, server net.Conn) bool {
		p.drop(client)
		_, _ = server.Write(request)
		time.Sleep(50 * time.Millisecond) // the server does it, and replies to a connection that is still there
		return false
	})
}

// stall keeps the request back, and sends it even if the client has gone meanwhile.
func (p *proxy) stall(word string, pause time.Duration) {
	p.add(word, func(request []byte, _, server net.Conn) bool {
		time.Sleep(pause)
		_, _ = server.Write(request)
		return true
	})
}

// close breaks all connections, and refuses new ones.
func (p *proxy) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.listener.Close()
	for conn := range p.open {
		_ = conn.Close()
	}
	p.open = map[net.Conn]bool{}
}
