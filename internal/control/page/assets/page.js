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

  // A table whose rows keep their place and focus: rows are matched by key, and a cell is written only where it changed.
  function table(box, caption, columns, list) {
    let t = box.querySelector('table');
    if (!t) {
      t = el('table', {}, el('caption', {}, caption), el('thead', {}, el('tr', {}, columns.map((c) => el('th', { scope: 'col' }, c.title)))), el('tbody'));
      fill(box, el('div', { class: 'scroll' }, t));
    }
    const body = t.tBodies[0];
    const old = new Map([...body.rows].map((r) => [r.dataset.key, r]));
    let place = body.firstElementChild;
    for (const item of list) {
      let tr = old.get(item.key);
      old.delete(item.key);
      if (!tr) {
        tr = el('tr', {}, columns.map((c, i) => el(i === 0 ? 'th' : 'td', { 'data-title': c.title, scope: i === 0 ? 'row' : undefined })));
        tr.dataset.key = item.key;
      }
      tr.className = item.class || '';
      columns.forEach((c, i) => {
        const cell = tr.children[i];
        const value = c.value(item);
        const shows = value instanceof Node ? value.dataset.is || value.textContent : String(value === undefined || value === null ? '–' : value);
        if (cell.dataset.shows === shows) return;
        cell.dataset.shows = shows;
        fill(cell, value instanceof Node ? value : shows);
      });
      if (tr !== place) body.insertBefore(tr, place); else place = place.nextElementSibling;
    }
    for (const tr of old.values()) tr.remove();
  }
  function empty(box, text) { fill(box, el('p', { class: 'muted' }, text)); }

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
    p.textContent = text;
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
    d.returnValue = '';
    d.onclose = () => { if (d.returnValue === 'yes') act(path, body); };
    d.showModal();
  }
  const button = (text, label, click, strong) => el('button', { type: 'button', 'aria-label': label, click, class: strong ? 'strong' : undefined }, text);

  async function who() {
    try {
      const a = await api('GET', 'session');
      changes = a.doc.changes === true;
      if (!changes) localStorage.removeItem(secretName);
      $('login').hidden = a.doc.reads !== false || !a.doc.token;
      if (a.doc.reads === false && !a.doc.token) $('login').hidden = false;
      const p = $('session');
      if (changes) fill(p, 'you may change things here ', button('Leave', 'Leave: end this session', leave));
      else fill(p, 'reading only; to change something type ', el('code', {}, 'pacectl dashboard'), ' on this machine');
      if (a.doc.reads) listen();
    } catch { $('session').textContent = ''; }
    draw();
  }
  async function begin(token) {
    const a = await api('POST', 'session', { token }, 'new');
    if (!a.ok) { say(`${a.doc.error.reason}. ${a.doc.error.remedy}`, true); return; }
    localStorage.setItem(secretName, a.doc.secret);
  }
  async function leave() {
    await api('DELETE', 'session');
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
    const alive = () => { connected = true; heardAt = Date.now(); live(); };
    source.addEventListener('state', (e) => { alive(); apply(JSON.parse(e.data), true); });
    source.addEventListener('change', (e) => { alive(); apply(JSON.parse(e.data), false); });
    source.addEventListener('beat', alive);
    source.onerror = () => {
      connected = false;
      live();
      if (source.readyState === EventSource.CLOSED) { source = null; setTimeout(who, 5000); }
    };
  }
  function live() {
    const p = $('live');
    const stale = Date.now() - heardAt > 15000;
    const text = connected && !stale ? 'live' : heardAt ? `the node is silent for ${span(Date.now() - heardAt)}; what is shown is as of then` : 'connecting…';
    if (p.textContent !== text) p.textContent = text;
    p.className = connected && !stale ? 'good' : 'bad';
  }

  // Drawing

  let due = false;
  function soon() { if (!due) { due = true; requestAnimationFrame(() => { due = false; draw(); }); } }

  function draw() {
    live();
    drawGlance(); drawConditions(); drawWaiting(); drawPicture(); drawMembers(); drawQueue(); drawAudit();
  }
  function drawGlance() {
    const n = head('node'), f = head('fleet');
    if (!n || !f) return;
    $('host').textContent = n.name;
    document.title = 'pace-node ' + n.name;
    const members = rows('fleet');
    const count = (role) => members.filter((m) => m.row.role === role).length;
    const silent = members.filter((m) => !m.row.self && (m.row.heard_ms === null || age(m.row.heard_ms, m.at) > 90000)).length;
    const versions = new Map();
    for (const m of members) { const v = m.row.version || 'unknown'; versions.set(v, (versions.get(v) || 0) + 1); }
    const view = f.view || {};
    const asOf = view.leads ? 'current: this machine leads' : `of a ${view.mode}, revision ${view.revision}` + (age(view.as_of_ms, docs.fleet.at) > 15000 ? `, ${span(age(view.as_of_ms, docs.fleet.at))} old` : ', current');
    const facts = [
      ['fleet', f.cluster], ['leader', f.leader ? f.leader.name || f.leader.id : 'none is heard'],
      ['members', `${members.length}: ${plural(count('voter'), 'voter', 'voters')}, ${plural(count('learner'), 'learner', 'learners')}`],
      ['not heard lately', silent], ['versions', [...versions].map(([v, c]) => `${v} (${c})`).join(', ')],
      ['picture', asOf], ['this machine', `${n.name} (${n.mode})`], ['up for', span(age(n.uptime_ms, docs.node.at))],
    ];
    if (view.voters_total > 1) facts.splice(3, 0, ['voters heard', `${view.voters_heard} of ${view.voters_total}`]);
    const dl = $('glance');
    const text = JSON.stringify(facts);
    if (dl.dataset.shows === text) return;
    dl.dataset.shows = text;
    fill(dl, facts.map(([k, v]) => el('div', {}, el('dt', {}, k), el('dd', {}, String(v)))));
  }
  function drawConditions() {
    const f = head('fleet'), box = $('conditions');
    if (!f) { const s = sorry('fleet'); if (s) fill(box, s); return; }
    const text = JSON.stringify(f.conditions.map((c) => [c.id, c.detail, c.remedy]));
    if (box.dataset.shows === text) return;
    box.dataset.shows = text;
    if (!f.conditions.length) { empty(box, 'none is raised'); return; }
    fill(box, el('ul', { class: 'conditions' }, f.conditions.map((c) => el('li', { class: c.severity },
      el('strong', {}, c.severity), ' ', el('span', { class: 'id' }, c.id), el('p', {}, c.detail), el('pre', { tabindex: '0', 'aria-label': 'remedy of ' + c.id }, c.remedy)))));
  }
  function drawWaiting() {
    const box = $('waiting'), w = head('waiting');
    if (!w) { const s = sorry('waiting'); if (s) fill(box, s); return; }
    const list = rows('waiting').sort((a, b) => (a.row.decision === 'waiting' ? 0 : 1) - (b.row.decision === 'waiting' ? 0 : 1) || (a.key < b.key ? -1 : 1));
    const text = JSON.stringify([changes, w.window.armed, list.map((r) => [r.key, r.row.decision, r.row.name, r.row.address_differs, r.row.key_conflict, r.row.name_of && r.row.name_of.id])]);
    if (box.dataset.shows === text) return;
    box.dataset.shows = text;
    const parts = [];
    if (w.window.armed) parts.push(el('p', { class: 'warning' }, 'machines that ask are admitted without a person comparing keys ', changes ? button('End the window', 'End the auto-approve window', () => act('waiting/window', { minutes: '0' })) : null));
    if (!list.length) parts.push(el('p', { class: 'muted' }, 'nobody waits'));
    for (const { row } of list) {
      const called = row.name || row.id;
      const marks = [row.address_differs ? 'address differs' : null, row.key_conflict ? 'key conflict' : null].filter(Boolean);
      parts.push(el('article', { class: 'waits ' + row.decision, 'aria-label': called },
        el('h3', {}, called, ' ', el('span', { class: 'muted' }, row.decision)),
        el('dl', {}, [['id', row.id], ['key', row.key], ['claims', row.endpoint], ['asked from', row.source], ['platform', row.platform], ['version', row.version], ['attempts', row.attempts]]
          .filter(([, v]) => v !== undefined && v !== '').map(([k, v]) => el('div', {}, el('dt', {}, k), el('dd', { class: k === 'key' ? 'key' : undefined }, String(v))))),
        marks.map((m) => el('p', { class: 'warning' }, m)),
        row.name_of ? el('p', { class: 'warning' }, `its name is also that of the member ${row.name_of.id}`) : null,
        row.decision !== 'waiting' ? null : changes ? el('div', { class: 'buttons' },
          button('Approve…', 'Approve ' + called, () => ask('Approve ' + called + '?', 'Compare this key with what pace-node --print-identity prints on that machine. Approve only if all of it is equal.', row.key, 'The key is equal: approve', 'waiting/approve', { id: row.id, key: row.key }), true),
          button('Reject…', 'Reject ' + called, () => ask('Reject ' + called + '?', 'It is told so.', row.key, 'Reject', 'waiting/reject', { id: row.id, key: row.key })))
          : row.approve ? el('pre', { tabindex: '0', 'aria-label': 'command that approves ' + called }, row.approve) : null));
    }
    fill(box, parts);
  }
  const short = (s, n) => s.length > n ? s.slice(0, n - 1) + '…' : s;
  function drawPicture() {
    const f = head('fleet'), box = $('picture');
    if (!f) return;
    const members = rows('fleet').map((m) => m.row);
    const voters = members.filter((m) => m.role === 'voter').sort((a, b) => (a.id < b.id ? -1 : 1));
    const others = members.filter((m) => m.role !== 'voter').sort((a, b) => (a.id < b.id ? -1 : 1));
    const leader = f.leader ? f.leader.id : '';
    const follows = new Map(rows('follows').map((l) => [l.row.id, l.row.follows]));
    const text = JSON.stringify([leader, members.map((m) => [m.id, m.role, m.name, follows.get(m.id), m.heard_ms === 0])]);
    if (box.dataset.shows === text) return;
    box.dataset.shows = text;
    const width = 640, height = 360, cx = width / 2, cy = height / 2;
    const picture = svg('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-labelledby': 'picture-title' });
    picture.append(svg('title', { id: 'picture-title' }, `who follows whom: ${plural(voters.length, 'voter', 'voters')}, ${plural(others.length, 'learner', 'learners')}, leader ${f.leader ? f.leader.name || f.leader.id : 'none'}`));
    const at = new Map();
    const inner = voters.filter((m) => m.id !== leader);
    if (voters.some((m) => m.id === leader)) at.set(leader, [cx, cy]);
    inner.forEach((m, i) => { const a = 2 * Math.PI * i / inner.length - Math.PI / 2; at.set(m.id, [cx + 95 * Math.cos(a), cy + 75 * Math.sin(a)]); });
    others.forEach((m, i) => { const a = 2 * Math.PI * (i + 0.5) / others.length - Math.PI / 2; at.set(m.id, [cx + 270 * Math.cos(a), cy + 150 * Math.sin(a)]); });
    const line = (from, to, kind) => { if (at.has(from) && at.has(to)) { const [x1, y1] = at.get(from), [x2, y2] = at.get(to); picture.append(svg('line', { x1, y1, x2, y2, class: kind })); } };
    for (const m of inner) if (follows.get(m.id) === leader) line(m.id, leader, 'vote');
    for (const m of others) if (follows.has(m.id)) line(m.id, follows.get(m.id), 'follow');
    const many = members.length > 60;
    for (const m of [...others, ...voters]) {
      const [x, y] = at.get(m.id);
      const g = svg('g', { class: `member ${m.role} ${m.id === leader ? 'leader' : ''} ${m.self || m.heard_ms === 0 ? 'heard' : 'silent'}` });
      g.append(svg('circle', { cx: x, cy: y, r: m.role === 'voter' ? 9 : many ? 3 : 6 }), svg('title', {}, `${m.name || m.id}, ${m.role}`));
      if (!many || m.role === 'voter') g.append(svg('text', { x, y: y + 22, 'text-anchor': 'middle' }, short(m.name || m.id, 14)));
      picture.append(g);
    }
    fill(box, picture);
  }
  function memberButtons(m) {
    if (!changes) return '';
    const called = m.name || m.id;
    const list = [];
    if (m.role === 'learner') list.push(button('Promote…', 'Promote ' + called, () => ask('Promote ' + called + '?', 'It becomes a voter: it holds the fleet\'s log and may lead. Choose machines that stay on.', '', 'Promote', 'members/promote', { id: m.id })));
    if (m.role === 'voter' || m.role === 'voter-pending') list.push(button('Demote…', 'Demote ' + called, () => ask('Demote ' + called + '?', 'It becomes a learner again.', '', 'Demote', 'members/demote', { id: m.id })));
    list.push(button('Forget…', 'Forget ' + called, () => ask('Forget ' + called + '?', 'It is removed, and its key is revoked for ever.', m.key, 'Forget it for ever', 'members/forget', { id: m.id })));
    const d = el('div', { class: 'buttons' }, list);
    d.dataset.is = m.role;
    return d;
  }
  const rowsMost = 200;
  function drawMembers() {
    const box = $('members'), f = head('fleet');
    if (!f) return;
    const all = rows('fleet').sort((a, b) => (a.key < b.key ? -1 : 1));
    if (!box.querySelector('input')) {
      const input = el('input', { type: 'search', id: 'filter', autocomplete: 'off', spellcheck: 'false' });
      input.addEventListener('input', () => { filter = input.value.toLowerCase(); soon(); });
      fill(box, el('p', {}, el('label', { for: 'filter' }, 'Find a machine '), input, ' ', el('span', { id: 'found', class: 'muted' })), el('div', { id: 'member-table' }));
    }
    const hit = filter ? all.filter(({ row: m }) => [m.id, m.name, m.role, m.version, m.platform, m.provisioning, ...Object.entries(m.labels || {}).flat()].some((t) => (t || '').toLowerCase().includes(filter))) : all;
    const shown = hit.slice(0, rowsMost);
    const found = hit.length > shown.length ? `${shown.length} of ${hit.length} are shown` : filter ? plural(hit.length, 'machine', 'machines') : '';
    if ($('found').textContent !== found) $('found').textContent = found;
    table($('member-table'), 'Members of the fleet', [
      { title: 'Name', value: ({ row: m }) => m.name || m.id },
      { title: 'Role', value: ({ row: m }) => m.role + (f.leader && f.leader.id === m.id ? ', leads' : '') + (m.self ? ', this machine' : '') },
      { title: 'Heard', value: ({ row: m, at }) => m.self ? 'self' : ago(age(m.heard_ms, at)) },
      { title: 'Provisioning', value: ({ row: m }) => m.provisioning || '–' },
      { title: 'Version', value: ({ row: m }) => m.version || '–' },
      { title: 'Platform', value: ({ row: m }) => m.platform || '–' },
      { title: 'Endpoint', value: ({ row: m }) => (m.endpoints && m.endpoints.fc) || '–' },
      { title: 'Id', value: ({ row: m }) => m.id },
      { title: 'Do', value: ({ row: m }) => memberButtons(m) },
    ], shown.map((m) => ({ ...m, class: m.row.self || m.row.heard_ms === 0 ? '' : 'silent' })));
  }
  const states = ['running', 'waiting', 'held', 'deferred', 'backing off', 'parked', 'unconfirmed', 'confirmed', 'none'];
  function drawQueue() {
    const box = $('queue'), q = head('queue');
    if (!q) { const s = sorry('queue'); if (s) fill(box, s); return; }
    if (!box.querySelector('#queue-head')) fill(box, el('div', { id: 'queue-head' }), el('div', { id: 'queue-table' }));
    const list = rows('queue').sort((a, b) => states.indexOf(a.row.state) - states.indexOf(b.row.state) || (a.row.due_ms || 0) - (b.row.due_ms || 0) || (a.key < b.key ? -1 : 1));
    const counts = states.map((s) => [s, list.filter((e) => e.row.state === s).length]).filter(([, n]) => n);
    const text = JSON.stringify([q.paused, q.why, counts, changes]);
    const top = $('queue-head');
    if (top.dataset.shows !== text) {
      top.dataset.shows = text;
      fill(top, q.paused ? el('p', { class: 'warning' }, 'paused: ' + (q.why || '')) : null,
        el('p', {}, counts.length ? counts.map(([s, n]) => `${n} ${s}`).join(', ') : 'nobody is in the queue'),
        changes ? el('div', { class: 'buttons' }, q.paused ? button('Resume', 'Resume the queue', () => act('queue/resume', {})) : button('Pause…', 'Pause the queue', () => ask('Pause the queue?', 'What runs is finished, and nothing more is begun.', '', 'Pause', 'queue/pause', {}))) : null);
    }
    if (!list.length) { fill($('queue-table')); return; }
    table($('queue-table'), 'Machines of the queue', [
      { title: 'Machine', value: ({ row: e }) => e.name || e.id },
      { title: 'State', value: ({ row: e }) => e.state + (e.again ? ', and once more' : '') },
      { title: 'Stage', value: ({ row: e }) => e.stage || '–' },
      { title: 'Attempt', value: ({ row: e }) => e.attempt },
      { title: 'Due', value: ({ row: e, at }) => { const d = age(e.due_ms, at, 'due_ms'); return d === null ? '–' : d > 0 ? 'in ' + span(d) : 'now'; } },
      { title: 'Last error', value: ({ row: e }) => e.last_error || '–' },
      { title: 'Last success', value: ({ row: e, at }) => ago(age(e.last_success_ms, at)) },
      { title: 'Do', value: ({ row: e }) => {
        if (!changes) return '';
        const called = e.name || e.id;
        const d = el('div', { class: 'buttons' }, button('Retry', 'Try ' + called + ' again now', () => act('queue/retry', { id: e.id })), button('Reprovision…', 'Provision ' + called + ' anew', () => ask('Provision ' + called + ' anew?', 'Its configuration is made and written again.', '', 'Reprovision', 'queue/reprovision', { id: e.id })), button('Drop…', 'Drop ' + called, () => ask('Drop ' + called + '?', 'It is taken out of the queue until it asks again.', '', 'Drop', 'queue/drop', { id: e.id })));
        d.dataset.is = 'buttons';
        return d;
      } },
    ], list.slice(0, rowsMost).map((e) => ({ ...e, class: e.row.state === 'parked' || e.row.last_error ? 'failing' : '' })));
  }
  function drawAudit() {
    const box = $('audit');
    if (!head('audit')) { const s = sorry('audit'); if (s) fill(box, s); return; }
    const list = rows('audit').sort((a, b) => b.row.revision - a.row.revision || b.row.at - a.row.at).slice(0, 50);
    if (!list.length) { empty(box, 'nothing yet'); return; }
    const keys = new Map(rows('fleet').map((m) => [m.row.key, m.row.name || m.row.id]));
    table(box, 'The last things done, newest first', [
      { title: 'When', value: ({ row: e }) => date(e.at) },
      { title: 'What', value: ({ row: e }) => e.did },
      { title: 'Of', value: ({ row: e }) => e.what || '–' },
      { title: 'By', value: ({ row: e }) => keys.get(e.by) || e.by || '–' },
      { title: 'Revision', value: ({ row: e }) => e.revision },
    ], list);
  }

  // Beginning

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
