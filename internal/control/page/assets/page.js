'use strict';
// The page shows what /api/v1/events sends. Text of other machines reaches the document as text only (textContent), never as
// markup. Ages are counted on by the page: the node sends a row again when anything else of it changed.
(() => {
  const $ = (id) => document.getElementById(id);
  const docs = {};            // name → {head, at, rows: Map(key → {row, at})}
  const leftNames = new Set(['due_ms', 'left_ms']);
  let skew = 0;               // the node's clock less ours, ms
  let heardAt = 0;            // when the stream last said anything, our clock
  let connected = false;
  let refused = false;        // the node let this page listen no further
  let changes = false;        // this browser may change something
  let source = null;
  let filter = '';

  const secretName = 'pace-session';
  const secret = () => localStorage.getItem(secretName) || '';

  // Small tools

  function el(tag, attrs, ...children) {
    const e = document.createElement(tag);
    for (const [k, v] of Object.entries(attrs || {})) {
      if (v === undefined || v === null || v === false) continue;
      if (k === 'class') e.className = v;
      else if (k === 'click') e.addEventListener('click', v);
      else e.setAttribute(k, v === true ? '' : String(v));
    }
    for (const c of children.flat()) if (c !== null && c !== undefined && c !== '') e.append(c instanceof Node ? c : String(c));
    return e;
  }
  function svg(tag, attrs, text) {
    const e = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const [k, v] of Object.entries(attrs)) e.setAttribute(k, String(v));
    if (text !== undefined) e.textContent = String(text);
    return e;
  }
  function span(ms) {
    const s = Math.max(0, Math.floor(ms / 1000));
    const two = (a, au, b, bu) => b ? `${a}${au}${b}${bu}` : `${a}${au}`;
    if (s < 60) return `${s}s`;
    if (s < 3600) return two(Math.floor(s / 60), 'm', s % 60, 's');
    if (s < 86400) return two(Math.floor(s / 3600), 'h', Math.floor(s % 3600 / 60), 'm');
    return two(Math.floor(s / 86400), 'd', Math.floor(s % 86400 / 3600), 'h');
  }
  // age counts a member that ends in _ms on from the moment it was sent.
  function age(value, at, name) {
    if (value === null || value === undefined) return null;
    if (value === 0 && !leftNames.has(name)) return 0;
    const passed = Date.now() + skew - at;
    return leftNames.has(name) ? value - passed : value + passed;
  }
  const ago = (ms) => ms === null ? 'never' : ms < 1500 ? 'now' : span(ms) + ' ago';
  const date = (unix) => unix ? new Date(unix * 1000).toISOString().replace('.000Z', 'Z') : '–';
  const plural = (n, one, many) => `${n} ${n === 1 ? one : many}`;
  function head(name) { const d = docs[name]; return d && !d.head.error ? d.head : null; }
  function failed(name) { const d = docs[name]; return d && d.head.error ? d.head.error : null; }
  function rows(name) { const d = docs[name]; return d ? [...d.rows.entries()].map(([key, r]) => ({ key, at: r.at, row: r.row })) : []; }

  // What a person reads of a doc that could not be had
  function sorry(name) {
    const f = failed(name);
    return f ? el('p', { class: 'sorry' }, f.reason, el('br'), el('span', { class: 'muted' }, f.remedy)) : null;
  }
  function fill(node, ...children) { node.replaceChildren(...children.flat().filter((c) => c !== null && c !== undefined)); }
  function write(node, text) { if (node.textContent !== text) node.textContent = text; }
  function empty(box, text) { fill(box, el('p', { class: 'muted' }, text)); }

  // What is drawn again while somebody is in it keeps them there: where they were by its label, or else at the start of it.
  const named = (e) => e && (e.getAttribute('aria-label') || e.id);
  function keepFocus(box, change) {
    const was = document.activeElement, inside = box !== was && box.contains(was), name = inside ? named(was) : '';
    change();
    if (!inside || document.activeElement === was) return;
    const again = name && [...box.querySelectorAll('[aria-label], [id]')].find((e) => named(e) === name);
    const start = again || box.querySelector('[tabindex="-1"]') || box.closest('section').querySelector('h2');
    if (!again) start.tabIndex = -1;
    start.focus();
  }

  // Elements that keep their place by key: make(item) makes one, update(element, item) writes what changed.
  function keyed(box, list, make, update) {
    const old = new Map([...box.children].map((e) => [e.dataset.key, e]));
    const stay = new Set(list.map((i) => i.key));
    for (const [key, e] of old) if (!stay.has(key)) e.remove();
    let place = box.firstElementChild;
    for (const item of list) {
      let e = old.get(item.key);
      if (!e) { e = make(item); e.dataset.key = item.key; }
      update(e, item);
      if (e === place) place = place.nextElementSibling; else box.insertBefore(e, place);
    }
  }

  // A table whose rows keep their place and focus. A cell is written only where it changed; its value is text, or {is, node}: a
  // maker of a node, and the text that stands for what it shows.
  function table(box, caption, columns, list) {
    let t = box.querySelector('table');
    if (!t) {
      t = el('table', {}, el('caption', {}, caption), el('thead', {}, el('tr', {}, columns.map((c) => el('th', { scope: 'col' }, c.title)))), el('tbody'));
      fill(box, t);
    }
    const cell = (c, i) => el(i === 0 ? 'th' : 'td', { 'data-title': c.title, scope: i === 0 ? 'row' : undefined });
    keepFocus(box, () => keyed(t.tBodies[0], list, () => el('tr', {}, columns.map(cell)), (tr, item) => {
      if (tr.className !== (item.class || '')) tr.className = item.class || '';
      columns.forEach((c, i) => {
        const value = c.value(item), at = tr.children[i];
        const shows = value && value.node ? value.is : String(value === undefined || value === null || value === '' ? '–' : value);
        if (at.dataset.shows === shows) return;
        at.dataset.shows = shows;
        at.className = (c.class || '') + (shows === '–' ? ' none' : '');
        fill(at, value && value.node ? value.node() : shows);
      });
    }));
  }
  // Long lists are shown a part at a time.
  const step = 100;
  const limits = {};
  function part(name, box, list, what) {
    const most = limits[name] || step, more = box.querySelector('.more');
    const left = list.length - most;
    const text = left > 0 ? `${most} of ${list.length} ${what} are shown` : '';
    if (more.dataset.shows !== text) {
      more.dataset.shows = text;
      keepFocus(more, () => fill(more, left > 0 ? [text + ' ', button('Show more', `Show more ${what}`, () => { limits[name] = most + step; draw(); })] : []));
    }
    return list.slice(0, most);
  }

  // Changes

  async function api(method, path, body, header) {
    const options = { method, headers: { 'X-Pace-Session': header || secret() || 'new' }, credentials: 'same-origin', cache: 'no-store' };
    if (body) { options.headers['Content-Type'] = 'application/json'; options.body = JSON.stringify(body); }
    const answer = await fetch('/api/v1/' + path, options);
    let doc = {};
    try { doc = await answer.json(); } catch { doc = { error: { reason: `the node answered ${answer.status}`, remedy: 'load the page again' } }; }
    return { ok: answer.ok, status: answer.status, doc };
  }
  let saidTimer = 0;
  function say(text, bad) {
    const p = $('said');
    p.className = bad ? 'bad' : 'good';
    write($('said-text'), text);
    p.hidden = false;
    clearTimeout(saidTimer);
    if (!bad) saidTimer = setTimeout(() => { p.hidden = true; }, 10000);
  }
  async function act(path, body) {
    try {
      const a = await api('POST', path, body);
      if (a.ok) { say(a.doc.text || 'done'); return; }
      say(`${a.doc.error.reason}. ${a.doc.error.remedy}`, true);
      if (a.status === 401) await who();
    } catch { say('the node does not answer; nothing is known to be done', true); }
  }
  function ask(title, text, key, yes, path, body) {
    $('sure-title').textContent = title;
    $('sure-text').textContent = text;
    $('sure-key').textContent = key || '';
    $('sure-yes').textContent = yes;
    const d = $('sure');
    $('sure-yes').onclick = () => { $('sure-yes').onclick = null; act(path, body); };
    // A close is told a moment later: the next question may be on its way by then.
    d.onclose = () => { if (!d.open) for (const name of ['title', 'text', 'key']) write($('sure-' + name), ''); };
    d.showModal();
  }
  const button = (text, label, click, strong) => el('button', { type: 'button', 'aria-label': label, click, class: strong ? 'strong' : undefined }, text);

  async function who() {
    try {
      const a = await api('GET', 'session');
      changes = a.doc.changes === true;
      if (!changes) localStorage.removeItem(secretName);
      const locked = a.doc.reads === false;
      $('login').hidden = !locked;
      document.body.classList.toggle('locked', locked);
      const p = $('session');
      if (locked) { forget(); fill(p, 'closed'); }
      else if (changes) fill(p, 'you may change things here ', button('Leave', 'Leave: end this session', leave));
      else fill(p, 'reading only; to change something type ', el('code', {}, 'pacectl dashboard'), ' on this machine');
      if (!locked) listen();
    } catch { $('session').textContent = ''; }
    draw();
  }
  // Nothing of the fleet stays on a page that may not read it any more.
  function forget() {
    if (source) { source.close(); source = null; }
    connected = false;
    heardAt = 0;
    filter = '';
    for (const name of Object.keys(docs)) delete docs[name];
    for (const name of ['glance', 'conditions', 'waiting', 'picture', 'members', 'queue', 'audit']) { fill($(name)); delete $(name).dataset.shows; }
    write($('host'), '');
    document.title = 'pace-node';
  }
  async function begin(token) {
    const a = await api('POST', 'session', { token }, 'new');
    if (!a.ok) { say(`${a.doc.error.reason}. ${a.doc.error.remedy}`, true); return; }
    localStorage.setItem(secretName, a.doc.secret);
  }
  async function leave() {
    await api('DELETE', 'session');
    write($('said-text'), ''); // it may name somebody
    $('said').hidden = true;
    localStorage.removeItem(secretName);
    await who();
  }

  // The stream

  function apply(event, fresh) {
    skew = event.at - Date.now();
    for (const c of event.docs) {
      if (fresh || !docs[c.doc]) docs[c.doc] = { head: {}, at: event.at, rows: new Map() };
      const d = docs[c.doc];
      if (c.head) { d.head = c.head; d.at = event.at; }
      for (const r of c.rows || []) d.rows.set(r.key, { row: r.row, at: event.at });
      for (const k of c.gone || []) d.rows.delete(k);
    }
    soon();
  }
  function listen() {
    if (source) return;
    source = new EventSource('/api/v1/events');
    const alive = () => { connected = true; refused = false; heardAt = Date.now(); live(); };
    source.addEventListener('state', (e) => { alive(); apply(JSON.parse(e.data), true); });
    source.addEventListener('change', (e) => { alive(); apply(JSON.parse(e.data), false); });
    source.addEventListener('beat', alive);
    source.onerror = () => {
      connected = false;
      refused = source.readyState === EventSource.CLOSED; // an answer, and not a silence
      live();
      if (refused) { source = null; setTimeout(who, 5000); }
    };
  }
  function live() {
    const p = $('live');
    const well = connected && Date.now() - heardAt <= 15000;
    // Not counted on by the second: it is read aloud where it changes.
    write(p, well ? 'live' : refused && !heardAt ? 'the node has no room for another page, and is asked again' : heardAt ? 'the node is silent; this is as of ' + new Date(heardAt).toLocaleTimeString() : 'connecting…');
    p.className = well ? 'good' : 'bad';
  }

  // Drawing

  let due = false;
  function soon() { if (!due) { due = true; requestAnimationFrame(() => { due = false; draw(); }); } }

  function draw() {
    live();
    drawGlance(); drawConditions(); drawWaiting(); drawPicture(); drawMembers(); drawQueue(); drawAudit();
    drawSections();
  }
  const silentAfter = 90000; // as /readyz has it, ms
  const silent = (m, at) => { const a = age(m.heard_ms, at); return !m.self && (a === null || a > silentAfter); };
  const neverAfter = 600000; // as pacectl fleet status has it, ms
  function heard(m, at) {
    if (m.self) return 'self';
    if (m.arrived) return ago(age(m.heard_ms, at));
    return age(m.admitted_ms, at) >= neverAfter ? 'never arrived' : 'not arrived yet';
  }
  function drawGlance() {
    const n = head('node'), f = head('fleet');
    if (!n || !f) return;
    write($('host'), n.name);
    const members = rows('fleet');
    const count = (role) => members.filter((m) => m.row.role === role).length;
    const versions = new Map();
    for (const m of members) { const v = m.row.version || 'unknown'; versions.set(v, (versions.get(v) || 0) + 1); }
    const view = f.view || {}, old = age(view.as_of_ms, docs.fleet.at);
    const asOf = view.leads ? 'current: this machine leads' : `of a ${view.mode} at revision ${view.revision}, ` + (old > 15000 ? span(old) + ' old' : 'current');
    const waits = rows('waiting').filter((r) => r.row.decision === 'waiting').length;
    const facts = [
      ['Fleet', f.cluster], ['Leader', f.leader ? f.leader.name || f.leader.id : 'none is heard'],
      ['Members', `${members.length}: ${plural(count('voter'), 'voter', 'voters')}, ${plural(count('learner'), 'learner', 'learners')}`],
      ['Not heard lately', members.filter((m) => silent(m.row, m.at)).length], ['Waiting for approval', head('waiting') ? waits : '–'],
      ['Versions', [...versions].sort((a, b) => b[1] - a[1]).slice(0, 4).map(([v, c]) => `${v} (${c})`).join(', ') + (versions.size > 4 ? ` and ${versions.size - 4} more` : '')],
      ['This picture', asOf], ['This machine', `${n.name} (${n.mode}), up for ${span(age(n.uptime_ms, docs.node.at))}`],
    ];
    if (view.voters_total > 1) facts.splice(3, 0, ['Voters heard', `${view.voters_heard} of ${view.voters_total}`]);
    keyed($('glance'), facts.map(([k, v]) => ({ key: k, v: String(v) })), ({ key }) => el('div', {}, el('dt', {}, key), el('dd')), (e, { v }) => write(e.lastChild, v));
  }
  // The numbers beside the links, and in the window's title what waits for a person.
  function drawSections() {
    const n = head('node');
    const c = conditions(), waits = rows('waiting').filter((r) => r.row.decision === 'waiting').length;
    const counts = { conditions: c ? c.length : '', waiting: head('waiting') ? waits : '', members: head('fleet') ? rows('fleet').length : '', queue: head('queue') ? rows('queue').filter((e) => e.row.state !== 'confirmed').length : '' };
    for (const [name, count] of Object.entries(counts)) write($('n-' + name), String(count));
    const pressing = waits + (c || []).filter((x) => x.severity === 'alert').length;
    const title = (pressing ? `(${pressing}) ` : '') + 'pace-node' + (n ? ' ' + n.name : '');
    if (document.title !== title) document.title = title;
  }
  function conditions() { const n = head('node'), f = head('fleet'); return n ? n.conditions : f ? f.conditions : null; }
  // A command to paste, with a button that copies it where the browser lets it.
  function command(text, label) {
    return el('div', { class: 'command' }, el('pre', { tabindex: '0', 'aria-label': label }, text), navigator.clipboard ? button('Copy', 'Copy ' + label, async (e) => {
      const b = e.currentTarget;
      try { await navigator.clipboard.writeText(text); write(b, 'Copied'); } catch { write(b, 'Cannot copy'); }
      setTimeout(() => write(b, 'Copy'), 2000);
    }) : null);
  }
  function drawConditions() {
    const box = $('conditions'), list = conditions();
    if (!list) { const s = sorry('node') || sorry('fleet'); if (s) fill(box, s); return; }
    if (!list.length) { if (box.dataset.shows !== 'none') { box.dataset.shows = 'none'; keepFocus(box, () => empty(box, 'none is raised')); } return; }
    if (box.dataset.shows !== 'some') { box.dataset.shows = 'some'; fill(box, el('ul', { class: 'conditions' })); }
    const at = docs.node && !docs.node.head.error ? docs.node.at : docs.fleet.at;
    keepFocus(box, () => keyed(box.firstChild, list.map((c) => ({ key: c.id, c })), () => el('li'), (li, { c }) => {
      const shows = JSON.stringify([c.severity, c.detail, c.remedy]);
      if (li.dataset.shows !== shows) {
        li.dataset.shows = shows;
        li.className = c.severity;
        fill(li, el('h3', {}, el('span', { class: 'severity' }, c.severity), ' ', c.id, ' ', el('span', { class: 'since muted' })), el('p', {}, c.detail), command(c.remedy, 'remedy of ' + c.id));
      }
      write(li.querySelector('.since'), 'for ' + span(age(c.since_ms, at)));
    }));
  }
  function drawWaiting() {
    const box = $('waiting'), w = head('waiting');
    if (!w) { const s = sorry('waiting'); if (s) { box.dataset.shows = ''; fill(box, s); } return; }
    if (box.dataset.shows !== 'some') { box.dataset.shows = 'some'; fill(box, el('div', { id: 'window' }), el('p', { class: 'muted', id: 'nobody' }), el('div', { id: 'asking' }), el('p', { class: 'more' })); }
    const armed = JSON.stringify([w.window.armed, changes]), top = $('window');
    if (top.dataset.shows !== armed) {
      top.dataset.shows = armed;
      keepFocus(top, () => fill(top, w.window.armed ? el('p', { class: 'warning' }, 'Machines that ask are admitted without a person comparing keys ', el('span', { class: 'left' }), ' ',
        changes ? button('End the window', 'End the window that admits machines unseen', () => act('waiting/window', { minutes: '0' })) : null) : []));
    }
    if (w.window.armed) write(top.querySelector('.left'), '(' + span(age(w.window.left_ms, docs.waiting.at, 'left_ms')) + ' left).');
    const all = rows('waiting').sort((a, b) => (a.row.decision === 'waiting' ? 0 : 1) - (b.row.decision === 'waiting' ? 0 : 1) || (a.key < b.key ? -1 : 1));
    write($('nobody'), all.length ? '' : 'nobody waits');
    const list = part('waiting', box, all, 'machines');
    keyed($('asking'), list, () => el('article'), (card, { row, at }) => {
      const shows = JSON.stringify([changes, row.decision, row.name, row.endpoint, row.source, row.platform, row.version, row.address_differs, row.key_conflict, row.key_rejected, row.name_of && row.name_of.id, row.approve]);
      if (card.dataset.shows !== shows) {
        card.dataset.shows = shows;
        keepFocus(card, () => drawAsking(card, row));
      }
      write(card.querySelector('.asked'), `asked ${ago(age(row.age_ms, at))}, ${plural(row.attempts, 'time', 'times')}`);
    });
  }
  function drawAsking(card, row) {
    const called = row.name || row.id;
    const marks = [
      row.address_differs ? 'It does not ask from the address that it claims.' : null,
      row.key_conflict ? 'This id is also used with another key.' : null,
      row.key_rejected ? 'This key was rejected under another id.' : null,
      row.name_of ? `A member has the same name: ${row.name_of.id}.` : null,
    ].filter(Boolean);
    const facts = [['Key', row.key, 'key'], ['Id', row.id, 'key'], ['Claims', row.endpoint], ['Asks from', row.source], ['Platform', row.platform], ['Version', row.version]];
    card.className = 'waits ' + row.decision;
    card.setAttribute('aria-label', called);
    fill(card, el('h3', { tabindex: '-1' }, called, ' ', el('span', { class: 'decision' }, row.decision), ' ', el('span', { class: 'asked muted' })),
      el('dl', {}, facts.filter(([, v]) => v).map(([k, v, c]) => el('div', { class: c }, el('dt', {}, k), el('dd', {}, v)))),
      marks.map((m) => el('p', { class: 'warning' }, m)),
      row.decision !== 'waiting' ? null : changes ? el('div', { class: 'buttons' },
        button('Approve…', 'Approve ' + called, () => ask('Approve ' + called + '?', 'Compare this key with what pace-node --print-identity prints on that machine. Approve only if all of it is equal.', row.key, 'The key is equal: approve', 'waiting/approve', { id: row.id, key: row.key }), true),
        button('Reject…', 'Reject ' + called, () => ask('Reject ' + called + '?', 'It is told so, and may ask again later.', row.key, 'Reject', 'waiting/reject', { id: row.id, key: row.key })))
        : row.approve ? command(row.approve, 'command that approves ' + called) : null);
  }
  const short = (s, n) => [...s].length > n ? [...s].slice(0, n - 1).join('') + '…' : s;
  // places puts n machines around the middle: few on one ellipse, many on rings.
  function places(n, cx, cy) {
    const out = [];
    if (n <= 28) {
      for (let i = 0; i < n; i++) { const a = 2 * Math.PI * (i + 0.5) / n - Math.PI / 2; out.push([cx + 265 * Math.cos(a), cy + 148 * Math.sin(a)]); }
      return out;
    }
    for (let r = 118; out.length < n; r += 10) {
      const room = Math.min(n - out.length, Math.floor(2 * Math.PI * r / 10));
      for (let i = 0; i < room; i++) { const a = 2 * Math.PI * i / room - Math.PI / 2; out.push([cx + r * Math.cos(a), cy + r * Math.sin(a)]); }
    }
    return out;
  }
  function drawPicture() {
    const f = head('fleet'), box = $('picture');
    if (!f) return;
    const all = rows('fleet'), members = all.map((m) => m.row), quiet = new Set(all.filter((m) => silent(m.row, m.at)).map((m) => m.row.id));
    const byId = (a, b) => (a.id < b.id ? -1 : 1);
    const voters = members.filter((m) => m.role === 'voter').sort(byId), others = members.filter((m) => m.role !== 'voter').sort(byId);
    const leader = f.leader ? f.leader.id : '';
    const follows = new Map(rows('follows').map((l) => [l.row.id, l.row.follows]));
    const text = JSON.stringify([leader, members.map((m) => [m.id, m.role, m.name, follows.get(m.id), quiet.has(m.id)])]);
    if (box.dataset.shows === text) return;
    box.dataset.shows = text;
    const cx = 320, cy = 190, at = new Map(), inner = voters.filter((m) => m.id !== leader);
    if (voters.length > inner.length) at.set(leader, [cx, cy]);
    inner.forEach((m, i) => { const a = 2 * Math.PI * i / inner.length - Math.PI / 2; at.set(m.id, [cx + 90 * Math.cos(a), cy + 72 * Math.sin(a)]); });
    places(others.length, cx, cy).forEach((p, i) => at.set(others[i].id, p));
    const high = Math.max(175, ...[...at.values()].map(([, y]) => Math.abs(y - cy))) + 22, wide = Math.max(320, ...[...at.values()].map(([x]) => Math.abs(x - cx) + 10));
    const picture = svg('svg', { viewBox: `${cx - wide} ${cy - high} ${2 * wide} ${2 * high}`, role: 'img', 'aria-labelledby': 'picture-title' });
    picture.append(svg('title', { id: 'picture-title' }, `who follows whom: ${plural(voters.length, 'voter', 'voters')}, ${plural(others.length, 'learner', 'learners')}, leader ${f.leader ? f.leader.name || f.leader.id : 'none'}`));
    const line = (from, to, kind) => { if (at.has(from) && at.has(to)) { const [x1, y1] = at.get(from), [x2, y2] = at.get(to); picture.append(svg('line', { x1, y1, x2, y2, class: kind })); } };
    for (const m of inner) if (follows.get(m.id) === leader) line(m.id, leader, 'vote');
    for (const m of others) if (follows.has(m.id)) line(m.id, follows.get(m.id), 'follow');
    const many = others.length > 28;
    for (const m of [...others, ...voters]) {
      const [x, y] = at.get(m.id), g = svg('g', { class: `member ${m.role} ${m.id === leader ? 'leader' : ''} ${quiet.has(m.id) ? 'quiet' : ''}` });
      g.append(svg('circle', { cx: x, cy: y, r: m.role === 'voter' ? 9 : many ? 3.5 : 6 }), svg('title', {}, `${m.name || m.id}, ${m.role}${quiet.has(m.id) ? ', not heard lately' : ''}`));
      if (!many || m.role === 'voter') g.append(svg('text', { x, y: y + 21, 'text-anchor': 'middle' }, short(m.name || m.id, 14)));
      picture.append(g);
    }
    fill(box, picture, el('p', { class: 'muted legend' }, 'Filled: leads. Blue: votes. Dashed: not heard lately.'));
  }
  function memberButtons(m) {
    const called = m.name || m.id, list = [];
    if (m.role === 'learner') list.push(button('Promote…', 'Promote ' + called, () => ask('Promote ' + called + '?', 'It becomes a voter: it holds the fleet\'s log and may lead. Choose machines that stay on.', '', 'Promote', 'members/promote', { id: m.id })));
    if (m.role === 'voter' || m.role === 'voter-pending') list.push(button('Demote…', 'Demote ' + called, () => ask('Demote ' + called + '?', 'It becomes a learner again.', '', 'Demote', 'members/demote', { id: m.id })));
    list.push(button('Forget…', 'Forget ' + called, () => ask('Forget ' + called + '?', 'It is removed, and its key is revoked for ever.', m.key, 'Forget it for ever', 'members/forget', { id: m.id })));
    return el('div', { class: 'buttons' }, list);
  }
  const labelsOf = (m) => Object.entries(m.labels || {}).map(([k, v]) => `${k}=${v}`).sort().join(' ');
  function drawMembers() {
    const box = $('members'), f = head('fleet');
    if (!f) { const s = sorry('fleet'); if (s && !box.firstChild) fill(box, s); return; }
    const called = (m) => [m.row.role === 'voter' ? '0' : '1', m.row.name || '', m.key].join(' ');
    const all = rows('fleet').map((m) => [called(m), m]).sort(([a], [b]) => (a < b ? -1 : 1)).map(([, m]) => m);
    if (!$('filter')) {
      const input = el('input', { type: 'search', id: 'filter', autocomplete: 'off', spellcheck: 'false' });
      input.addEventListener('input', () => { filter = input.value.trim().toLowerCase(); soon(); });
      fill(box, el('p', {}, el('label', { for: 'filter' }, 'Find a machine '), input, ' ', el('span', { id: 'found', class: 'muted', role: 'status' })), el('div', { id: 'member-table' }), el('p', { class: 'more' }));
    }
    const hit = filter ? all.filter(({ row: m }) => [m.id, m.name, m.role, m.version, m.platform, m.provisioning, labelsOf(m), m.endpoints && m.endpoints.fc].some((t) => (t || '').toLowerCase().includes(filter))) : all;
    write($('found'), filter ? plural(hit.length, 'machine', 'machines') : '');
    table($('member-table'), 'Members of the fleet', [
      { title: 'Name', value: ({ row: m }) => { const labels = labelsOf(m), name = m.name || m.id; return labels ? { is: name + ' ' + labels, node: () => [el('div', {}, name), el('div', { class: 'labels' }, labels)] } : name; } },
      { title: 'Role', value: ({ row: m }) => m.role + (f.leader && f.leader.id === m.id ? ', leads' : '') + (m.self ? ', this machine' : '') },
      { title: 'Heard', value: ({ row: m, at }) => heard(m, at) },
      { title: 'Provisioning', value: ({ row: m }) => m.provisioning },
      { title: 'Version', value: ({ row: m }) => m.version },
      { title: 'Platform', class: 'platform', value: ({ row: m }) => m.platform },
      { title: 'Endpoint', class: 'endpoint', value: ({ row: m }) => m.endpoints && m.endpoints.fc },
      { title: 'Id', class: 'id', value: ({ row: m }) => m.id },
      { title: 'Change', value: ({ row: m }) => changes ? { is: `${m.role} ${m.name}`, node: () => memberButtons(m) } : '' },
    ], part('members', box, hit, 'members').map((m) => ({ ...m, class: silent(m.row, m.at) ? 'silent' : '' })));
    $('member-table').classList.toggle('reading', !changes);
  }
  const states = ['running', 'waiting', 'held', 'deferred', 'backing off', 'parked', 'unconfirmed', 'confirmed', 'none'];
  function queueButtons(e) {
    const called = e.name || e.id;
    return el('div', { class: 'buttons' }, button('Retry', 'Retry ' + called + ' now', () => act('queue/retry', { id: e.id })),
      button('Reprovision…', 'Reprovision ' + called, () => ask('Reprovision ' + called + '?', 'Its configuration is made and written again.', '', 'Reprovision', 'queue/reprovision', { id: e.id })),
      button('Drop…', 'Drop ' + called, () => ask('Drop ' + called + '?', 'It is taken out of the queue until it asks again.', '', 'Drop', 'queue/drop', { id: e.id })));
  }
  function drawQueue() {
    const box = $('queue'), q = head('queue');
    if (!q) { const s = sorry('queue'); if (s) fill(box, s); return; }
    if (!$('queue-head')) fill(box, el('div', { id: 'queue-head' }), el('div', { id: 'queue-table' }), el('p', { class: 'more' }));
    const list = rows('queue').sort((a, b) => states.indexOf(a.row.state) - states.indexOf(b.row.state) || (a.row.due_ms || 0) - (b.row.due_ms || 0) || (a.key < b.key ? -1 : 1));
    const counts = states.map((s) => [s, list.filter((e) => e.row.state === s).length]).filter(([, n]) => n);
    const text = JSON.stringify([q.paused, q.why, q.note, counts, changes]), top = $('queue-head');
    if (top.dataset.shows !== text) {
      top.dataset.shows = text;
      keepFocus(top, () => fill(top, q.paused ? el('p', { class: 'warning' }, 'Paused: ' + (q.why || '')) : null,
        el('p', {}, counts.length ? counts.map(([s, n]) => `${n} ${s}`).join(', ') : 'nobody is in the queue'),
        q.note ? el('p', { class: 'muted' }, q.note) : null,
        changes ? el('div', { class: 'buttons' }, q.paused ? button('Resume', 'Resume the queue', () => act('queue/resume', {})) : button('Pause…', 'Pause the queue', () => ask('Pause the queue?', 'What runs is finished, and nothing more is begun.', '', 'Pause', 'queue/pause', {}))) : null));
    }
    const shown = part('queue', box, list, 'machines');
    if (!list.length) { fill($('queue-table')); return; }
    table($('queue-table'), 'Machines of the queue', [
      { title: 'Machine', value: ({ row: e }) => e.name || e.id },
      { title: 'State', value: ({ row: e }) => e.state + (e.again ? ', and once more' : '') },
      { title: 'Stage', value: ({ row: e }) => e.stage },
      { title: 'Attempt', value: ({ row: e }) => e.attempt || '' },
      { title: 'Due', value: ({ row: e, at }) => { const d = age(e.due_ms, at, 'due_ms'); return d === null ? '' : d > 0 ? 'in ' + span(d) : 'now'; } },
      { title: 'Last error', class: 'error', value: ({ row: e }) => e.last_error },
      { title: 'Last success', value: ({ row: e, at }) => ago(age(e.last_success_ms, at)) },
      { title: 'Change', value: ({ row: e }) => changes ? { is: 'of ' + e.name, node: () => queueButtons(e) } : '' },
    ], shown);
    $('queue-table').classList.toggle('reading', !changes);
  }
  function drawAudit() {
    const box = $('audit');
    if (!head('audit')) { const s = sorry('audit'); if (s) fill(box, s); return; }
    const list = rows('audit').sort((a, b) => b.row.revision - a.row.revision || b.row.at - a.row.at).slice(0, 50);
    if (!list.length) { empty(box, head('audit').note || 'nothing yet'); return; }
    const keys = new Map(rows('fleet').map((m) => [m.row.key, m.row.name || m.row.id]));
    table(box, 'The last things done, newest first', [
      { title: 'When', value: ({ row: e }) => date(e.at) },
      { title: 'What', value: ({ row: e }) => e.did },
      { title: 'Of', value: ({ row: e }) => e.what },
      { title: 'By', value: ({ row: e }) => keys.get(e.by) || e.by },
      { title: 'Revision', value: ({ row: e }) => e.revision },
    ], list);
  }

  // Beginning

  $('said-close').addEventListener('click', () => { $('said').hidden = true; });
  $('login').addEventListener('submit', async (e) => {
    e.preventDefault();
    const token = $('token').value.trim();
    $('token').value = '';
    if (token) { await begin(token); await who(); }
  });
  setInterval(soon, 1000);
  async function start() {
    const token = new URLSearchParams(location.hash.slice(1)).get('token');
    if (token) {
      history.replaceState(null, '', '/');
      try { await begin(token); } catch { say('the node does not answer', true); }
    }
    await who();
  }
  // The address of another pacectl dashboard, opened in this tab.
  window.addEventListener('hashchange', () => { if (location.hash.startsWith('#token=')) start(); });
  start();
})();
