BEGIN TRANSACTION;
CREATE TABLE claims (fleet TEXT NOT NULL, node TEXT NOT NULL, run TEXT NOT NULL, PRIMARY KEY (fleet, node));
INSERT INTO "claims" VALUES('hall','r1-n1','old-abc234');
INSERT INTO "claims" VALUES('hall','r1-n2','old-abc234');
CREATE TABLE domains (fleet TEXT NOT NULL, node TEXT NOT NULL, domain TEXT NOT NULL, at REAL NOT NULL,
    PRIMARY KEY (fleet, node));
CREATE TABLE journal (run TEXT NOT NULL, seq INTEGER NOT NULL, at REAL NOT NULL, kind TEXT NOT NULL,
    subject TEXT NOT NULL, words TEXT NOT NULL, reason TEXT NOT NULL, receipt TEXT, PRIMARY KEY (run, seq));
INSERT INTO "journal" VALUES('old-abc234',1,1000.0,'launched','old','1 slice on 2 nodes of `hall`','',NULL);
INSERT INTO "journal" VALUES('old-abc234',2,1.79599923090727496143e+09,'headline','starting','1 node: 1 to claim','',NULL);
INSERT INTO "journal" VALUES('old-abc234',3,1.79599923090727496143e+09,'intent','claim:r1-n1','the run begins','start',NULL);
INSERT INTO "journal" VALUES('old-abc234',4,1.79599923090727496143e+09,'intent','claim:r1-n2','the run begins','start',NULL);
INSERT INTO "journal" VALUES('old-abc234',5,1.79599923090868353846e+09,'receipt','claim:r1-n1','done','start','{"seq":5,"at":1795999230.9086835,"action":{"reason":{"why":"start","words":"the run begins"},"node":"r1-n1","kind":"claim"},"answer":{"result":"done","stage":"","words":"","tail":[],"bundles":[],"notes":[],"warnings":[],"elapsed":0.0}}');
INSERT INTO "journal" VALUES('old-abc234',6,1.79599923091649460796e+09,'receipt','claim:r1-n2','done','start','{"seq":6,"at":1795999230.9164946,"action":{"reason":{"why":"start","words":"the run begins"},"node":"r1-n2","kind":"claim"},"answer":{"result":"done","stage":"","words":"","tail":[],"bundles":[],"notes":[],"warnings":[],"elapsed":0.0}}');
INSERT INTO "journal" VALUES('old-abc234',7,1.79599923091714453694e+09,'headline','starting','1 node: 1 to prepare','',NULL);
INSERT INTO "journal" VALUES('old-abc234',8,1.79599923091714453694e+09,'intent','start_head','the run begins','start',NULL);
INSERT INTO "journal" VALUES('old-abc234',9,1.79599923091714453694e+09,'intent','prepare:r1-n1','the run begins','start',NULL);
INSERT INTO "journal" VALUES('old-abc234',10,1.79599923092312431334e+09,'receipt','start_head','done','start','{"seq":10,"at":1795999230.9231243,"action":{"reason":{"why":"start","words":"the run begins"},"kind":"start_head"},"answer":{"result":"done","stage":"","words":"","tail":[],"bundles":[],"notes":[],"warnings":[],"elapsed":0.0}}');
INSERT INTO "journal" VALUES('old-abc234',11,1.79599923092323708528e+09,'receipt','prepare:r1-n1','done','start','{"seq":11,"at":1795999230.923237,"action":{"reason":{"why":"start","words":"the run begins"},"node":"r1-n1","member":"main/0","kind":"prepare"},"answer":{"result":"done","stage":"","words":"","tail":[],"bundles":[],"notes":[],"warnings":[],"elapsed":0.0}}');
INSERT INTO "journal" VALUES('old-abc234',12,1.79599923092378234868e+09,'headline','starting','1 node: 1 in setup','',NULL);
INSERT INTO "journal" VALUES('old-abc234',13,1.79599923093163514132e+09,'headline','starting','1 node: 1 waiting for the Ray head','',NULL);
INSERT INTO "journal" VALUES('old-abc234',14,1.79599923093729329105e+09,'intent','join:r1-n1#0','the run begins','start',NULL);
INSERT INTO "journal" VALUES('old-abc234',15,1.79599923094048023221e+09,'receipt','join:r1-n1#0','done','start','{"seq":15,"at":1795999230.9404802,"action":{"reason":{"why":"start","words":"the run begins"},"seat":{"member":"main/0","node":"r1-n1","generation":0},"kind":"join"},"answer":{"result":"done","stage":"","words":"","tail":[],"bundles":[],"notes":[],"warnings":[],"elapsed":0.0}}');
INSERT INTO "journal" VALUES('old-abc234',16,1.79599923094109535214e+09,'headline','starting','1 node: 1 joining Ray','',NULL);
INSERT INTO "journal" VALUES('old-abc234',17,1.79599923094468331332e+09,'headline','starting','1 node: 1 ready','',NULL);
INSERT INTO "journal" VALUES('old-abc234',18,1.79599923094468331332e+09,'intent','reserve:main/0','the run begins','start',NULL);
INSERT INTO "journal" VALUES('old-abc234',19,1.79599923095484972001e+09,'receipt','reserve:main/0','done','start','{"seq":19,"at":1795999230.9548497,"action":{"reason":{"why":"start","words":"the run begins"},"slice":"main/0","kind":"reserve"},"answer":{"result":"done","stage":"","words":"","tail":[],"bundles":[],"notes":[],"warnings":[],"elapsed":0.0}}');
INSERT INTO "journal" VALUES('old-abc234',20,1.79599923095548129076e+09,'intent','verify:main/0','the run begins','start',NULL);
INSERT INTO "journal" VALUES('old-abc234',21,1.79599923095944809907e+09,'receipt','verify:main/0','done: Ray has main-0 in r1','start','{"seq":21,"at":1795999230.959448,"action":{"reason":{"why":"start","words":"the run begins"},"slice":"main/0","kind":"verify"},"answer":{"result":"done","stage":"","words":"","tail":[],"bundles":[{"index":0,"seat":"main-0","domain":"r1","generation":0}],"notes":[],"warnings":[],"elapsed":0.0}}');
INSERT INTO "journal" VALUES('old-abc234',22,1.79599923096012806895e+09,'intent','start:run@1','the run begins','start',NULL);
INSERT INTO "journal" VALUES('old-abc234',23,1.79599923096284842492e+09,'receipt','start:run@1','done','start','{"seq":23,"at":1795999230.9628484,"action":{"reason":{"why":"start","words":"the run begins"},"gang":"run","epoch":1,"restarts":0,"seats":[{"member":"main/0","node":"r1-n1","generation":0}],"kind":"start"},"answer":{"result":"done","stage":"","words":"","tail":[],"bundles":[],"notes":[],"warnings":[],"elapsed":0.0}}');
INSERT INTO "journal" VALUES('old-abc234',24,1.79599923096336841583e+09,'headline','running','1 of 1 rank running','',NULL);
CREATE TABLE owners (run TEXT PRIMARY KEY, host TEXT NOT NULL, boot TEXT NOT NULL, pid INTEGER NOT NULL,
    started INTEGER NOT NULL);
CREATE TABLE runs (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, state TEXT NOT NULL, wanted TEXT NOT NULL, fleet TEXT NOT NULL,
    source TEXT NOT NULL, created REAL NOT NULL, ended REAL, headline TEXT NOT NULL,
    run TEXT NOT NULL, record TEXT NOT NULL, snapshot TEXT NOT NULL, outcome TEXT
);
INSERT INTO "runs" VALUES('old-abc234','old','running','running','hall','task.yaml',1000.0,NULL,'1 of 1 rank running','{"id":"old-abc234","name":"old","task":{"name":"job","groups":[{"name":"main","topology":{"slices":1,"nodes_per_slice":1,"within":"rack","prefer":null,"spread":null,"spares":1,"racks":[],"exclude_racks":[],"exclude_nodes":[]},"gpus":4,"accelerator":null,"run":"true","setup":null,"envs":{},"recovery":{"max_restarts":3,"node_attempts":2,"restart_with":"run","on_no_spare":"wait"}}],"workdir":null,"file_mounts":{},"secrets":[],"stop_signal":"TERM","stop_grace":60.0},"placement":{"slices":[{"group":"main","index":0,"place":"r1","rack":"r1","domain":"r1","nodes":["r1-n1"],"spares":["r1-n2"]}],"why":[]},"fleet":{"name":"hall","transport":"sim","nodes":[{"name":"r1-n1","rack":"r1","access":{"address":"r1-n1","user":null,"port":null,"identity_file":null,"proxy_jump":null,"host_key":null,"python":null,"wheels":null},"domain":"r1","gpus":4,"accelerator":null,"tray":null,"places":{},"drained":null,"gpu_driver":"nvidia","env":{}},{"name":"r1-n2","rack":"r1","access":{"address":"r1-n2","user":null,"port":null,"identity_file":null,"proxy_jump":null,"host_key":null,"python":null,"wheels":null},"domain":"r1","gpus":4,"accelerator":null,"tray":null,"places":{},"drained":null,"gpu_driver":"nvidia","env":{}}],"levels":["rack"],"head":null,"fence_command":null,"lease_path":"/run/lock/nvlaunch","imex":"adopt","domains":{"r1":["r1-n1","r1-n2"]},"sim":{"seed":1,"start_s":3.0,"run_s":1000.0,"speed":Infinity,"faults":[]},"source":"built-in"},"wanted":"running"}','{"receipts_seen":23,"seats":{"main/0":{"member":"main/0","node":"r1-n1","generation":0}},"gangs":{"run":{"epoch":1,"restarts":0,"broken":null}},"exits":{},"asked":["r1-n2","r1-n1"],"claimed":["r1-n2","r1-n1"],"attempts":{},"retries":{},"condemned":{},"sweeps":[],"verified":{"main/0":[0]},"since":{},"signalled":[],"head_asked":true,"outcome":null}','{"name":"old","id":"old-abc234","state":"running","headline":"1 of 1 rank running","epoch":1,"restarts":0,"since":1795999230.9633684,"observed_at":1795999230.9633684,"inventory":"hall","ranks":[{"group":"main","slice":0,"rank":0,"node":"r1-n1","rack":"r1","domain":"r1","state":"running","exit_code":null}],"spares":[{"slice":"main/0","node":"r1-n2","rack":"r1"}],"outcome":null}',NULL);
CREATE TABLE worlds (fleet TEXT PRIMARY KEY, world TEXT NOT NULL);
INSERT INTO "worlds" VALUES('hall/r1-n2','{"run":"old-abc234","keeper_at":0.0,"setup":null,"raylets":[],"ranks":[]}');
INSERT INTO "worlds" VALUES('hall//old-abc234','{"began_at":0.0,"ray":{"since":0.0,"begun_at":0.0,"starts":1,"groups":{"main/0":5.999999999999998}}}');
INSERT INTO "worlds" VALUES('hall/r1-n1','{"run":"old-abc234","keeper_at":0.0,"setup":{"member":"main/0","begun_at":0.0},"raylets":[{"seat":"main-0","generation":0,"begun_at":2.9999999999999996,"ended_at":null}],"ranks":[{"member":"main/0","epoch":1,"restarts":0,"generation":0,"master":"r1-n1","begun_at":5.999999999999998,"ended_at":null,"signalled":null,"signalled_at":null}]}');
INSERT INTO "worlds" VALUES('hall//old-abc234/clock','9.999999999999998 1795999230.9059877');
CREATE UNIQUE INDEX one_live_run_of_a_name ON runs (name) WHERE ended IS NULL;
CREATE INDEX claims_of_a_run ON claims (run);
COMMIT;
PRAGMA user_version = 2;
